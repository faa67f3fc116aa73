module {
  func.func @main(%arg1: !torch.vtensor<[1,2,?,8],f32>, %arg2: !torch.vtensor<[1,2,?,8],f32>, %arg3: !torch.vtensor<[1,2,?,8],f32>) -> !torch.vtensor<[1,2,?,8],f32> {
    %int2 = torch.constant.int 2
    %int0 = torch.constant.int 0
    %int1 = torch.constant.int 1
    %int3 = torch.constant.int 3
    %0 = torch.prim.ListConstruct %int0, %int1, %int3, %int2 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %1 = torch.aten.permute %arg2, %0 : !torch.vtensor<[1,2,?,8],f32>, !torch.list<int> -> !torch.vtensor<[1,2,8,?],f32>
    %int8 = torch.constant.int 8
    %int-1 = torch.constant.int -1
    %2 = torch.prim.ListConstruct %int2, %int8, %int-1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %3 = torch.aten.view %1, %2 : !torch.vtensor<[1,2,8,?],f32>, !torch.list<int> -> !torch.vtensor<[2,8,?],f32>
    %4 = torch.prim.ListConstruct %int2, %int-1, %int8 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %5 = torch.aten.view %arg1, %4 : !torch.vtensor<[1,2,?,8],f32>, !torch.list<int> -> !torch.vtensor<[2,?,8],f32>
    %6 = torch.aten.bmm %5, %3 : !torch.vtensor<[2,?,8],f32>, !torch.vtensor<[2,8,?],f32> -> !torch.vtensor<[2,?,?],f32>
    %7 = torch.aten.size.int %arg1, %int2 : !torch.vtensor<[1,2,?,8],f32>, !torch.int -> !torch.int
    %8 = torch.prim.ListConstruct %int1, %int2, %7, %7 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %9 = torch.aten.view %6, %8 : !torch.vtensor<[2,?,?],f32>, !torch.list<int> -> !torch.vtensor<[1,2,?,?],f32>
    %10 = torch.vtensor.literal(dense<0.353553385> : tensor<f32>) : !torch.vtensor<[],f32>
    %11 = torch.aten.mul.Tensor %9, %10 : !torch.vtensor<[1,2,?,?],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[1,2,?,?],f32>
    %none = torch.constant.none
    %12 = torch.aten.arange.start_step %int0, %7, %int1, %int3, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[?],si32>
    %13 = torch.prim.ListConstruct %int1, %int1, %int-1, %int1 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %14 = torch.aten.view %12, %13 : !torch.vtensor<[?],si32>, !torch.list<int> -> !torch.vtensor<[1,1,?,1],si32>
    %15 = torch.aten.arange.start_step %int0, %7, %int1, %int3, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[?],si32>
    %16 = torch.prim.ListConstruct %int1, %int1, %int1, %int-1 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %17 = torch.aten.view %15, %16 : !torch.vtensor<[?],si32>, !torch.list<int> -> !torch.vtensor<[1,1,1,?],si32>
    %18 = torch.aten.sub.Tensor %17, %14, %int1 : !torch.vtensor<[1,1,1,?],si32>, !torch.vtensor<[1,1,?,1],si32>, !torch.int -> !torch.vtensor<[1,1,?,?],si32>
    %19 = torch.vtensor.literal(dense<0> : tensor<si32>) : !torch.vtensor<[],si32>
    %20 = torch.aten.le.Tensor %18, %19 : !torch.vtensor<[1,1,?,?],si32>, !torch.vtensor<[],si32> -> !torch.vtensor<[1,1,?,?],i1>
    %21 = torch.vtensor.literal(dense<0xFF800000> : tensor<f32>) : !torch.vtensor<[],f32>
    %22 = torch.aten.where.self %20, %11, %21 : !torch.vtensor<[1,1,?,?],i1>, !torch.vtensor<[1,2,?,?],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[1,2,?,?],f32>
    %23 = torch.vtensor.literal(dense<0xFF800000> : tensor<f32>) : !torch.vtensor<[],f32>
    %24 = torch.vtensor.literal(dense<0.000000e+00> : tensor<f32>) : !torch.vtensor<[],f32>
    %25 = torch.vtensor.literal(dense<1.000000e+00> : tensor<f32>) : !torch.vtensor<[],f32>
    %26 = torch.prim.ListConstruct %int3 : (!torch.int) -> !torch.list<int>
    %true = torch.constant.bool true
    %27 = torch.aten.amax %22, %26, %true : !torch.vtensor<[1,2,?,?],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,2,?,1],f32>
    %28 = torch.aten.sub.Tensor %22, %27, %int1 : !torch.vtensor<[1,2,?,?],f32>, !torch.vtensor<[1,2,?,1],f32>, !torch.int -> !torch.vtensor<[1,2,?,?],f32>
    %29 = torch.aten.exp %28 : !torch.vtensor<[1,2,?,?],f32> -> !torch.vtensor<[1,2,?,?],f32>
    %30 = torch.aten.sum.dim_IntList %29, %26, %true, %none : !torch.vtensor<[1,2,?,?],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,2,?,1],f32>
    %31 = torch.prim.ListConstruct %int2, %7, %7 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %32 = torch.aten.view %29, %31 : !torch.vtensor<[1,2,?,?],f32>, !torch.list<int> -> !torch.vtensor<[2,?,?],f32>
    %33 = torch.aten.view %arg3, %4 : !torch.vtensor<[1,2,?,8],f32>, !torch.list<int> -> !torch.vtensor<[2,?,8],f32>
    %34 = torch.aten.bmm %32, %33 : !torch.vtensor<[2,?,?],f32>, !torch.vtensor<[2,?,8],f32> -> !torch.vtensor<[2,?,8],f32>
    %35 = torch.prim.ListConstruct %int1, %int2, %int-1, %int8 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
    %36 = torch.aten.view %34, %35 : !torch.vtensor<[2,?,8],f32>, !torch.list<int> -> !torch.vtensor<[1,2,?,8],f32>
    %37 = torch.aten.div.Tensor %36, %30 : !torch.vtensor<[1,2,?,8],f32>, !torch.vtensor<[1,2,?,1],f32> -> !torch.vtensor<[1,2,?,8],f32>
    return %37 : !torch.vtensor<[1,2,?,8],f32>
  }
}
