module {
  func.func @main(%arg1: !torch.vtensor<[256,512],f32>, %arg2: !torch.vtensor<[1,512],f32>, %arg3: !torch.vtensor<[1,512],f32>, %arg4: !torch.vtensor<[512,64],f32>) -> !torch.vtensor<[256,64],f32> {
    %0 = torch.vtensor.literal(dense<9.99999974E-6> : tensor<1xf32>) : !torch.vtensor<[1],f32>
    %int1 = torch.constant.int 1
    %1 = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
    %true = torch.constant.bool true
    %none = torch.constant.none
    %2 = torch.aten.sum.dim_IntList %arg1, %1, %true, %none : !torch.vtensor<[256,512],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[256,1],f32>
    %3 = torch.vtensor.literal(dense<0.001953125> : tensor<f32>) : !torch.vtensor<[],f32>
    %4 = torch.aten.mul.Tensor %2, %3 : !torch.vtensor<[256,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[256,1],f32>
    %5 = torch.aten.sub.Tensor %arg1, %4, %int1 : !torch.vtensor<[256,512],f32>, !torch.vtensor<[256,1],f32>, !torch.int -> !torch.vtensor<[256,512],f32>
    %6 = torch.aten.mul.Tensor %5, %5 : !torch.vtensor<[256,512],f32>, !torch.vtensor<[256,512],f32> -> !torch.vtensor<[256,512],f32>
    %7 = torch.aten.sum.dim_IntList %6, %1, %true, %none : !torch.vtensor<[256,512],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[256,1],f32>
    %8 = torch.vtensor.literal(dense<0.001953125> : tensor<f32>) : !torch.vtensor<[],f32>
    %9 = torch.aten.mul.Tensor %7, %8 : !torch.vtensor<[256,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[256,1],f32>
    %10 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %11 = torch.aten.view %0, %10 : !torch.vtensor<[1],f32>, !torch.list<int> -> !torch.vtensor<[1,1],f32>
    %12 = torch.aten.add.Tensor %9, %11, %int1 : !torch.vtensor<[256,1],f32>, !torch.vtensor<[1,1],f32>, !torch.int -> !torch.vtensor<[256,1],f32>
    %13 = torch.aten.rsqrt %12 : !torch.vtensor<[256,1],f32> -> !torch.vtensor<[256,1],f32>
    %14 = torch.aten.mul.Tensor %5, %13 : !torch.vtensor<[256,512],f32>, !torch.vtensor<[256,1],f32> -> !torch.vtensor<[256,512],f32>
    %15 = torch.aten.mul.Tensor %14, %arg2 : !torch.vtensor<[256,512],f32>, !torch.vtensor<[1,512],f32> -> !torch.vtensor<[256,512],f32>
    %16 = torch.aten.add.Tensor %15, %arg3, %int1 : !torch.vtensor<[256,512],f32>, !torch.vtensor<[1,512],f32>, !torch.int -> !torch.vtensor<[256,512],f32>
    %int256 = torch.constant.int 256
    %int512 = torch.constant.int 512
    %17 = torch.prim.ListConstruct %int1, %int256, %int512 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %18 = torch.aten.view %16, %17 : !torch.vtensor<[256,512],f32>, !torch.list<int> -> !torch.vtensor<[1,256,512],f32>
    %int64 = torch.constant.int 64
    %19 = torch.prim.ListConstruct %int1, %int512, %int64 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %20 = torch.aten.view %arg4, %19 : !torch.vtensor<[512,64],f32>, !torch.list<int> -> !torch.vtensor<[1,512,64],f32>
    %21 = torch.prim.ListConstruct %int256, %int512 : (!torch.int, !torch.int) -> !torch.list<int>
    %22 = torch.aten.view %18, %21 : !torch.vtensor<[1,256,512],f32>, !torch.list<int> -> !torch.vtensor<[256,512],f32>
    %23 = torch.prim.ListConstruct %int512, %int64 : (!torch.int, !torch.int) -> !torch.list<int>
    %24 = torch.aten.view %20, %23 : !torch.vtensor<[1,512,64],f32>, !torch.list<int> -> !torch.vtensor<[512,64],f32>
    %25 = torch.aten.mm %22, %24 : !torch.vtensor<[256,512],f32>, !torch.vtensor<[512,64],f32> -> !torch.vtensor<[256,64],f32>
    %26 = torch.prim.ListConstruct %int1, %int256, %int64 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %27 = torch.aten.view %25, %26 : !torch.vtensor<[256,64],f32>, !torch.list<int> -> !torch.vtensor<[1,256,64],f32>
    %28 = torch.prim.ListConstruct %int256, %int64 : (!torch.int, !torch.int) -> !torch.list<int>
    %29 = torch.aten.view %27, %28 : !torch.vtensor<[1,256,64],f32>, !torch.list<int> -> !torch.vtensor<[256,64],f32>
    return %29 : !torch.vtensor<[256,64],f32>
  }
}
