module {
  func.func @main(%arg1: !torch.vtensor<[64,96],f32>, %arg2: !torch.vtensor<[96,512],f32>, %arg3: !torch.vtensor<[1,512],f32>, %arg4: !torch.vtensor<[1,512],f32>) -> !torch.vtensor<[64,512],f32> {
    %int1 = torch.constant.int 1
    %int64 = torch.constant.int 64
    %int96 = torch.constant.int 96
    %0 = torch.prim.ListConstruct %int1, %int64, %int96 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %1 = torch.aten.view %arg1, %0 : !torch.vtensor<[64,96],f32>, !torch.list<int> -> !torch.vtensor<[1,64,96],f32>
    %int512 = torch.constant.int 512
    %2 = torch.prim.ListConstruct %int1, %int96, %int512 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %3 = torch.aten.view %arg2, %2 : !torch.vtensor<[96,512],f32>, !torch.list<int> -> !torch.vtensor<[1,96,512],f32>
    %4 = torch.prim.ListConstruct %int64, %int96 : (!torch.int, !torch.int) -> !torch.list<int>
    %5 = torch.aten.view %1, %4 : !torch.vtensor<[1,64,96],f32>, !torch.list<int> -> !torch.vtensor<[64,96],f32>
    %6 = torch.prim.ListConstruct %int96, %int512 : (!torch.int, !torch.int) -> !torch.list<int>
    %7 = torch.aten.view %3, %6 : !torch.vtensor<[1,96,512],f32>, !torch.list<int> -> !torch.vtensor<[96,512],f32>
    %8 = torch.aten.mm %5, %7 : !torch.vtensor<[64,96],f32>, !torch.vtensor<[96,512],f32> -> !torch.vtensor<[64,512],f32>
    %9 = torch.prim.ListConstruct %int1, %int64, %int512 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %10 = torch.aten.view %8, %9 : !torch.vtensor<[64,512],f32>, !torch.list<int> -> !torch.vtensor<[1,64,512],f32>
    %11 = torch.prim.ListConstruct %int64, %int512 : (!torch.int, !torch.int) -> !torch.list<int>
    %12 = torch.aten.view %10, %11 : !torch.vtensor<[1,64,512],f32>, !torch.list<int> -> !torch.vtensor<[64,512],f32>
    %13 = torch.vtensor.literal(dense<9.99999974E-6> : tensor<1xf32>) : !torch.vtensor<[1],f32>
    %14 = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
    %true = torch.constant.bool true
    %none = torch.constant.none
    %15 = torch.aten.sum.dim_IntList %12, %14, %true, %none : !torch.vtensor<[64,512],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[64,1],f32>
    %16 = torch.vtensor.literal(dense<0.001953125> : tensor<f32>) : !torch.vtensor<[],f32>
    %17 = torch.aten.mul.Tensor %15, %16 : !torch.vtensor<[64,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[64,1],f32>
    %18 = torch.aten.sub.Tensor %12, %17, %int1 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[64,1],f32>, !torch.int -> !torch.vtensor<[64,512],f32>
    %19 = torch.aten.mul.Tensor %18, %18 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[64,512],f32> -> !torch.vtensor<[64,512],f32>
    %20 = torch.aten.sum.dim_IntList %19, %14, %true, %none : !torch.vtensor<[64,512],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[64,1],f32>
    %21 = torch.vtensor.literal(dense<0.001953125> : tensor<f32>) : !torch.vtensor<[],f32>
    %22 = torch.aten.mul.Tensor %20, %21 : !torch.vtensor<[64,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[64,1],f32>
    %23 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %24 = torch.aten.view %13, %23 : !torch.vtensor<[1],f32>, !torch.list<int> -> !torch.vtensor<[1,1],f32>
    %25 = torch.aten.add.Tensor %22, %24, %int1 : !torch.vtensor<[64,1],f32>, !torch.vtensor<[1,1],f32>, !torch.int -> !torch.vtensor<[64,1],f32>
    %26 = torch.aten.rsqrt %25 : !torch.vtensor<[64,1],f32> -> !torch.vtensor<[64,1],f32>
    %27 = torch.aten.mul.Tensor %18, %26 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[64,1],f32> -> !torch.vtensor<[64,512],f32>
    %28 = torch.aten.mul.Tensor %27, %arg3 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[1,512],f32> -> !torch.vtensor<[64,512],f32>
    %29 = torch.aten.add.Tensor %28, %arg4, %int1 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[1,512],f32>, !torch.int -> !torch.vtensor<[64,512],f32>
    return %29 : !torch.vtensor<[64,512],f32>
  }
}
