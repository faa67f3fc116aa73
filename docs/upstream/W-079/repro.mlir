func.func @main(%x: !torch.vtensor<[8,16,56,56],f16>) -> !torch.vtensor<[8,16,56,56],f16> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 6
  %2 = torch.prims.convert_element_type %x, %1 : !torch.vtensor<[8,16,56,56],f16>, !torch.int -> !torch.vtensor<[8,16,56,56],f32>
  %3 = torch.constant.int 0
  %4 = torch.constant.int 2
  %5 = torch.constant.int 3
  %6 = torch.prim.ListConstruct %3, %4, %5 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %7 = torch.constant.bool true
  %8 = torch.constant.none
  %9 = torch.aten.sum.dim_IntList %2, %6, %7, %8 : !torch.vtensor<[8,16,56,56],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,16,1,1],f32>
  %10 = torch.constant.float 3.985969e-05
  %11 = torch.aten.mul.Scalar %9, %10 : !torch.vtensor<[1,16,1,1],f32>, !torch.float -> !torch.vtensor<[1,16,1,1],f32>
  %12 = torch.constant.int 1
  %13 = torch.aten.sub.Tensor %2, %11, %12 : !torch.vtensor<[8,16,56,56],f32>, !torch.vtensor<[1,16,1,1],f32>, !torch.int -> !torch.vtensor<[8,16,56,56],f32>
  %14 = torch.aten.mul.Tensor %13, %13 : !torch.vtensor<[8,16,56,56],f32>, !torch.vtensor<[8,16,56,56],f32> -> !torch.vtensor<[8,16,56,56],f32>
  %15 = torch.aten.sum.dim_IntList %14, %6, %7, %8 : !torch.vtensor<[8,16,56,56],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,16,1,1],f32>
  %16 = torch.aten.mul.Scalar %15, %10 : !torch.vtensor<[1,16,1,1],f32>, !torch.float -> !torch.vtensor<[1,16,1,1],f32>
  %17 = torch.constant.float 1.000000e-05
  %18 = torch.aten.add.Scalar %16, %17, %12 : !torch.vtensor<[1,16,1,1],f32>, !torch.float, !torch.int -> !torch.vtensor<[1,16,1,1],f32>
  %19 = torch.aten.rsqrt %18 : !torch.vtensor<[1,16,1,1],f32> -> !torch.vtensor<[1,16,1,1],f32>
  %20 = torch.aten.mul.Tensor %13, %19 : !torch.vtensor<[8,16,56,56],f32>, !torch.vtensor<[1,16,1,1],f32> -> !torch.vtensor<[8,16,56,56],f32>
  %21 = torch.constant.int 5
  %22 = torch.prims.convert_element_type %20, %21 : !torch.vtensor<[8,16,56,56],f32>, !torch.int -> !torch.vtensor<[8,16,56,56],f16>
  return %22 : !torch.vtensor<[8,16,56,56],f16>
}
