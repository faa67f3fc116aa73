module {
  func.func @main(%arg0: !torch.tensor<[3,130],f16>, %arg1: !torch.vtensor<[3,130],f16>, %arg2: !torch.vtensor<[3,130],f16>, %arg3: !torch.vtensor<[130],f16>) attributes {torch.assume_strict_symbolic_shapes} {
    %0 = torch.vtensor.literal(dense<9.99999974E-6> : tensor<1xf32>) : !torch.vtensor<[1],f32>
    %1 = torch.vtensor.literal(dense<0.000000e+00> : tensor<3x62xf16>) : !torch.vtensor<[3,62],f16>
    %2 = torch.prim.ListConstruct %arg2, %1 : (!torch.vtensor<[3,130],f16>, !torch.vtensor<[3,62],f16>) -> !torch.list<vtensor<*,f16>>
    %int1 = torch.constant.int 1
    %3 = torch.aten.cat %2, %int1 : !torch.list<vtensor<*,f16>>, !torch.int -> !torch.vtensor<[3,192],f16>
    %int6 = torch.constant.int 6
    %4 = torch.prims.convert_element_type %3, %int6 : !torch.vtensor<[3,192],f16>, !torch.int -> !torch.vtensor<[3,192],f32>
    %5 = torch.prim.ListConstruct %int1 : (!torch.int) -> !torch.list<int>
    %true = torch.constant.bool true
    %none = torch.constant.none
    %6 = torch.aten.sum.dim_IntList %4, %5, %true, %none : !torch.vtensor<[3,192],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[3,1],f32>
    %7 = torch.vtensor.literal(dense<0.0076923077> : tensor<f32>) : !torch.vtensor<[],f32>
    %8 = torch.aten.mul.Tensor %6, %7 : !torch.vtensor<[3,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[3,1],f32>
    %9 = torch.aten.sub.Tensor %4, %8, %int1 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,1],f32>, !torch.int -> !torch.vtensor<[3,192],f32>
    %int0 = torch.constant.int 0
    %int192 = torch.constant.int 192
    %int4 = torch.constant.int 4
    %10 = torch.aten.arange.start_step %int0, %int192, %int1, %int4, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[192],si64>
    %11 = torch.prim.ListConstruct %int1, %int192 : (!torch.int, !torch.int) -> !torch.list<int>
    %12 = torch.aten.view %10, %11 : !torch.vtensor<[192],si64>, !torch.list<int> -> !torch.vtensor<[1,192],si64>
    %int130 = torch.constant.int 130
    %13 = torch.aten.lt.Scalar %12, %int130 : !torch.vtensor<[1,192],si64>, !torch.int -> !torch.vtensor<[1,192],i1>
    %14 = torch.vtensor.literal(dense<0.000000e+00> : tensor<f32>) : !torch.vtensor<[],f32>
    %15 = torch.aten.where.self %13, %9, %14 : !torch.vtensor<[1,192],i1>, !torch.vtensor<[3,192],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[3,192],f32>
    %16 = torch.aten.mul.Tensor %15, %15 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,192],f32> -> !torch.vtensor<[3,192],f32>
    %17 = torch.aten.sum.dim_IntList %16, %5, %true, %none : !torch.vtensor<[3,192],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[3,1],f32>
    %18 = torch.vtensor.literal(dense<0.0076923077> : tensor<f32>) : !torch.vtensor<[],f32>
    %19 = torch.aten.mul.Tensor %17, %18 : !torch.vtensor<[3,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[3,1],f32>
    %20 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
    %21 = torch.aten.view %0, %20 : !torch.vtensor<[1],f32>, !torch.list<int> -> !torch.vtensor<[1,1],f32>
    %22 = torch.aten.add.Tensor %19, %21, %int1 : !torch.vtensor<[3,1],f32>, !torch.vtensor<[1,1],f32>, !torch.int -> !torch.vtensor<[3,1],f32>
    %23 = torch.aten.rsqrt %22 : !torch.vtensor<[3,1],f32> -> !torch.vtensor<[3,1],f32>
    %24 = torch.aten.mul.Tensor %15, %23 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,1],f32> -> !torch.vtensor<[3,192],f32>
    %25 = torch.prims.convert_element_type %arg1, %int6 : !torch.vtensor<[3,130],f16>, !torch.int -> !torch.vtensor<[3,130],f32>
    %26 = torch.prim.ListConstruct %int1, %int130 : (!torch.int, !torch.int) -> !torch.list<int>
    %27 = torch.aten.view %arg3, %26 : !torch.vtensor<[130],f16>, !torch.list<int> -> !torch.vtensor<[1,130],f16>
    %28 = torch.prims.convert_element_type %27, %int6 : !torch.vtensor<[1,130],f16>, !torch.int -> !torch.vtensor<[1,130],f32>
    %29 = torch.aten.mul.Tensor %25, %28 : !torch.vtensor<[3,130],f32>, !torch.vtensor<[1,130],f32> -> !torch.vtensor<[3,130],f32>
    %30 = torch.vtensor.literal(dense<0.000000e+00> : tensor<3x62xf32>) : !torch.vtensor<[3,62],f32>
    %31 = torch.prim.ListConstruct %29, %30 : (!torch.vtensor<[3,130],f32>, !torch.vtensor<[3,62],f32>) -> !torch.list<vtensor<*,f32>>
    %32 = torch.aten.cat %31, %int1 : !torch.list<vtensor<*,f32>>, !torch.int -> !torch.vtensor<[3,192],f32>
    %33 = torch.aten.mul.Tensor %32, %24 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,192],f32> -> !torch.vtensor<[3,192],f32>
    %34 = torch.aten.sum.dim_IntList %33, %5, %true, %none : !torch.vtensor<[3,192],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[3,1],f32>
    %35 = torch.vtensor.literal(dense<0.0076923077> : tensor<f32>) : !torch.vtensor<[],f32>
    %36 = torch.aten.mul.Tensor %34, %35 : !torch.vtensor<[3,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[3,1],f32>
    %37 = torch.aten.mul.Tensor %24, %36 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,1],f32> -> !torch.vtensor<[3,192],f32>
    %38 = torch.aten.sum.dim_IntList %32, %5, %true, %none : !torch.vtensor<[3,192],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[3,1],f32>
    %39 = torch.vtensor.literal(dense<0.0076923077> : tensor<f32>) : !torch.vtensor<[],f32>
    %40 = torch.aten.mul.Tensor %38, %39 : !torch.vtensor<[3,1],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[3,1],f32>
    %41 = torch.aten.add.Tensor %37, %40, %int1 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,1],f32>, !torch.int -> !torch.vtensor<[3,192],f32>
    %42 = torch.aten.sub.Tensor %32, %41, %int1 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,192],f32>, !torch.int -> !torch.vtensor<[3,192],f32>
    %43 = torch.aten.mul.Tensor %42, %23 : !torch.vtensor<[3,192],f32>, !torch.vtensor<[3,1],f32> -> !torch.vtensor<[3,192],f32>
    %44 = torch.aten.slice.Tensor %43, %int1, %int0, %int130, %int1 : !torch.vtensor<[3,192],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[3,130],f32>
    %int5 = torch.constant.int 5
    %54 = torch.prims.convert_element_type %44, %int5 : !torch.vtensor<[3,130],f32>, !torch.int -> !torch.vtensor<[3,130],f16>
    torch.overwrite.tensor.contents %54 overwrites %arg0 : !torch.vtensor<[3,130],f16>, !torch.tensor<[3,130],f16>
    return
  }
}
