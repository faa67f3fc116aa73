module {
  func.func @main(%arg1: !torch.vtensor<[1,1,4,4],f32>, %arg2: !torch.vtensor<[1,1,1,4],f32>, %arg3: !torch.vtensor<[1,1,1,4],f32>, %arg4: !torch.vtensor<[2,1,1,1],f32>) -> !torch.vtensor<[1,2,4,4],f32> {
    %int0 = torch.constant.int 0
    %int1 = torch.constant.int 1
    %int3 = torch.constant.int 3
    %int2 = torch.constant.int 2
    %0 = torch.prim.ListConstruct %int0, %int1, %int3, %int2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %1 = torch.aten.permute %arg2, %0 : !torch.vtensor<[1,1,1,4],f32>, !torch.list<int> -> !torch.vtensor<[1,1,4,1],f32>
    %int4 = torch.constant.int 4
    %2 = torch.prim.ListConstruct %int1, %int4, %int1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %3 = torch.aten.view %1, %2 : !torch.vtensor<[1,1,4,1],f32>, !torch.list<int> -> !torch.vtensor<[1,4,1],f32>
    %4 = torch.prim.ListConstruct %int1, %int4, %int4 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %5 = torch.aten.view %arg1, %4 : !torch.vtensor<[1,1,4,4],f32>, !torch.list<int> -> !torch.vtensor<[1,4,4],f32>
    %6 = torch.prim.ListConstruct %int4, %int4 : (!torch.int, !torch.int) -> !torch.list<int>
    %7 = torch.aten.view %5, %6 : !torch.vtensor<[1,4,4],f32>, !torch.list<int> -> !torch.vtensor<[4,4],f32>
    %8 = torch.prim.ListConstruct %int4, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %9 = torch.aten.view %3, %8 : !torch.vtensor<[1,4,1],f32>, !torch.list<int> -> !torch.vtensor<[4,1],f32>
    %10 = torch.aten.mm %7, %9 : !torch.vtensor<[4,4],f32>, !torch.vtensor<[4,1],f32> -> !torch.vtensor<[4,1],f32>
    %11 = torch.aten.view %10, %2 : !torch.vtensor<[4,1],f32>, !torch.list<int> -> !torch.vtensor<[1,4,1],f32>
    %12 = torch.prim.ListConstruct %int1, %int1, %int4, %int1 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %13 = torch.aten.view %11, %12 : !torch.vtensor<[1,4,1],f32>, !torch.list<int> -> !torch.vtensor<[1,1,4,1],f32>
    %14 = torch.vtensor.literal(dense<5.000000e-01> : tensor<f32>) : !torch.vtensor<[],f32>
    %15 = torch.aten.mul.Tensor %13, %14 : !torch.vtensor<[1,1,4,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[1,1,4,1],f32>
    %none = torch.constant.none
    %16 = torch.aten.arange.start_step %int0, %int4, %int1, %int3, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[4],si32>
    %17 = torch.aten.view %16, %12 : !torch.vtensor<[4],si32>, !torch.list<int> -> !torch.vtensor<[1,1,4,1],si32>
    %18 = torch.aten.arange.start_step %int0, %int1, %int1, %int3, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[1],si32>
    %19 = torch.prim.ListConstruct %int1, %int1, %int1, %int1 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %20 = torch.aten.view %18, %19 : !torch.vtensor<[1],si32>, !torch.list<int> -> !torch.vtensor<[1,1,1,1],si32>
    %21 = torch.vtensor.literal(dense<0xFF800000> : tensor<f32>) : !torch.vtensor<[],f32>
    %22 = torch.vtensor.literal(dense<0.000000e+00> : tensor<f32>) : !torch.vtensor<[],f32>
    %23 = torch.vtensor.literal(dense<1.000000e+00> : tensor<f32>) : !torch.vtensor<[],f32>
    %24 = torch.prim.ListConstruct %int3 : (!torch.int) -> !torch.list<int>
    %true = torch.constant.bool true
    %25 = torch.aten.amax %15, %24, %true : !torch.vtensor<[1,1,4,1],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,1,4,1],f32>
    %26 = torch.aten.sub.Tensor %15, %25, %int1 : !torch.vtensor<[1,1,4,1],f32>, !torch.vtensor<[1,1,4,1],f32>, !torch.int -> !torch.vtensor<[1,1,4,1],f32>
    %27 = torch.aten.exp %26 : !torch.vtensor<[1,1,4,1],f32> -> !torch.vtensor<[1,1,4,1],f32>
    %28 = torch.aten.sum.dim_IntList %27, %24, %true, %none : !torch.vtensor<[1,1,4,1],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,1,4,1],f32>
    %29 = torch.aten.view %27, %2 : !torch.vtensor<[1,1,4,1],f32>, !torch.list<int> -> !torch.vtensor<[1,4,1],f32>
    %30 = torch.prim.ListConstruct %int1, %int1, %int4 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %31 = torch.aten.view %arg3, %30 : !torch.vtensor<[1,1,1,4],f32>, !torch.list<int> -> !torch.vtensor<[1,1,4],f32>
    %32 = torch.aten.view %29, %8 : !torch.vtensor<[1,4,1],f32>, !torch.list<int> -> !torch.vtensor<[4,1],f32>
    %33 = torch.prim.ListConstruct %int1, %int4 : (!torch.int, !torch.int) -> !torch.list<int>
    %34 = torch.aten.view %31, %33 : !torch.vtensor<[1,1,4],f32>, !torch.list<int> -> !torch.vtensor<[1,4],f32>
    %35 = torch.aten.mm %32, %34 : !torch.vtensor<[4,1],f32>, !torch.vtensor<[1,4],f32> -> !torch.vtensor<[4,4],f32>
    %36 = torch.aten.view %35, %4 : !torch.vtensor<[4,4],f32>, !torch.list<int> -> !torch.vtensor<[1,4,4],f32>
    %37 = torch.prim.ListConstruct %int1, %int1, %int4, %int4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %38 = torch.aten.view %36, %37 : !torch.vtensor<[1,4,4],f32>, !torch.list<int> -> !torch.vtensor<[1,1,4,4],f32>
    %39 = torch.aten.div.Tensor %38, %28 : !torch.vtensor<[1,1,4,4],f32>, !torch.vtensor<[1,1,4,1],f32> -> !torch.vtensor<[1,1,4,4],f32>
    %40 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %41 = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
    %false = torch.constant.bool false
    %42 = torch.prim.ListConstruct  : () -> !torch.list<int>
    %43 = torch.aten.convolution %39, %arg4, %none, %40, %41, %40, %false, %42, %int1 : !torch.vtensor<[1,1,4,4],f32>, !torch.vtensor<[2,1,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,4,4],f32>
    return %43 : !torch.vtensor<[1,2,4,4],f32>
  }
}
