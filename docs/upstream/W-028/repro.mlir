module {
  func.func @main(%arg1: !torch.vtensor<[1,2,6,6],si8>) -> !torch.vtensor<[1,2,3,3],si8> {
    %int6 = torch.constant.int 6
    %0 = torch.prims.convert_element_type %arg1, %int6 : !torch.vtensor<[1,2,6,6],si8>, !torch.int -> !torch.vtensor<[1,2,6,6],f32>
    %1 = torch.vtensor.literal(dense<0xFF800000> : tensor<1x2x1x6xf32>) : !torch.vtensor<[1,2,1,6],f32>
    %2 = torch.prim.ListConstruct %1, %0 : (!torch.vtensor<[1,2,1,6],f32>, !torch.vtensor<[1,2,6,6],f32>) -> !torch.list<vtensor<*,f32>>
    %int2 = torch.constant.int 2
    %3 = torch.aten.cat %2, %int2 : !torch.list<vtensor<*,f32>>, !torch.int -> !torch.vtensor<[1,2,7,6],f32>
    %4 = torch.vtensor.literal(dense<0xFF800000> : tensor<1x2x7x1xf32>) : !torch.vtensor<[1,2,7,1],f32>
    %5 = torch.prim.ListConstruct %4, %3 : (!torch.vtensor<[1,2,7,1],f32>, !torch.vtensor<[1,2,7,6],f32>) -> !torch.list<vtensor<*,f32>>
    %int3 = torch.constant.int 3
    %6 = torch.aten.cat %5, %int3 : !torch.list<vtensor<*,f32>>, !torch.int -> !torch.vtensor<[1,2,7,7],f32>
    %int0 = torch.constant.int 0
    %int5 = torch.constant.int 5
    %7 = torch.aten.slice.Tensor %6, %int2, %int0, %int5, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %8 = torch.aten.slice.Tensor %7, %int3, %int0, %int5, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %9 = torch.aten.slice.Tensor %6, %int2, %int0, %int5, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %int1 = torch.constant.int 1
    %10 = torch.aten.slice.Tensor %9, %int3, %int1, %int6, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %11 = torch.aten.maximum %8, %10 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %12 = torch.aten.slice.Tensor %6, %int2, %int0, %int5, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %int7 = torch.constant.int 7
    %13 = torch.aten.slice.Tensor %12, %int3, %int2, %int7, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %14 = torch.aten.maximum %11, %13 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %15 = torch.aten.slice.Tensor %6, %int2, %int1, %int6, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %16 = torch.aten.slice.Tensor %15, %int3, %int0, %int5, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %17 = torch.aten.maximum %14, %16 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %18 = torch.aten.slice.Tensor %6, %int2, %int1, %int6, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %19 = torch.aten.slice.Tensor %18, %int3, %int1, %int6, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %20 = torch.aten.maximum %17, %19 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %21 = torch.aten.slice.Tensor %6, %int2, %int1, %int6, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %22 = torch.aten.slice.Tensor %21, %int3, %int2, %int7, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %23 = torch.aten.maximum %20, %22 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %24 = torch.aten.slice.Tensor %6, %int2, %int2, %int7, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %25 = torch.aten.slice.Tensor %24, %int3, %int0, %int5, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %26 = torch.aten.maximum %23, %25 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %27 = torch.aten.slice.Tensor %6, %int2, %int2, %int7, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %28 = torch.aten.slice.Tensor %27, %int3, %int1, %int6, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %29 = torch.aten.maximum %26, %28 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %30 = torch.aten.slice.Tensor %6, %int2, %int2, %int7, %int2 : !torch.vtensor<[1,2,7,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,7],f32>
    %31 = torch.aten.slice.Tensor %30, %int3, %int2, %int7, %int2 : !torch.vtensor<[1,2,3,7],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,2,3,3],f32>
    %32 = torch.aten.maximum %29, %31 : !torch.vtensor<[1,2,3,3],f32>, !torch.vtensor<[1,2,3,3],f32> -> !torch.vtensor<[1,2,3,3],f32>
    %float-1.280000e02 = torch.constant.float -1.280000e+02
    %float1.270000e02 = torch.constant.float 1.270000e+02
    %33 = torch.aten.clamp %32, %float-1.280000e02, %float1.270000e02 : !torch.vtensor<[1,2,3,3],f32>, !torch.float, !torch.float -> !torch.vtensor<[1,2,3,3],f32>
    %34 = torch.prims.convert_element_type %33, %int1 : !torch.vtensor<[1,2,3,3],f32>, !torch.int -> !torch.vtensor<[1,2,3,3],si8>
    return %34 : !torch.vtensor<[1,2,3,3],si8>
  }
}
