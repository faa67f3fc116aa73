func.func @main(%x: !torch.vtensor<[64,512],f16>) -> !torch.vtensor<[64,512],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 6
  %2 = torch.prims.convert_element_type %x, %1 : !torch.vtensor<[64,512],f16>, !torch.int -> !torch.vtensor<[64,512],f32>
  %3 = torch.constant.int 1
  %4 = torch.prim.ListConstruct %3 : (!torch.int) -> !torch.list<int>
  %5 = torch.constant.bool true
  %6 = torch.constant.none
  %7 = torch.aten.sum.dim_IntList %2, %4, %5, %6 : !torch.vtensor<[64,512],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[64,1],f32>
  %8 = torch.constant.float 1.953125e-03
  %9 = torch.aten.mul.Scalar %7, %8 : !torch.vtensor<[64,1],f32>, !torch.float -> !torch.vtensor<[64,1],f32>
  %10 = torch.aten.sub.Tensor %2, %9, %3 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[64,1],f32>, !torch.int -> !torch.vtensor<[64,512],f32>
  %11 = torch.aten.mul.Tensor %10, %10 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[64,512],f32> -> !torch.vtensor<[64,512],f32>
  %12 = torch.aten.sum.dim_IntList %11, %4, %5, %6 : !torch.vtensor<[64,512],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[64,1],f32>
  %13 = torch.aten.mul.Scalar %12, %8 : !torch.vtensor<[64,1],f32>, !torch.float -> !torch.vtensor<[64,1],f32>
  %14 = torch.constant.float 1.000000e-05
  %15 = torch.aten.add.Scalar %13, %14, %3 : !torch.vtensor<[64,1],f32>, !torch.float, !torch.int -> !torch.vtensor<[64,1],f32>
  %16 = torch.aten.rsqrt %15 : !torch.vtensor<[64,1],f32> -> !torch.vtensor<[64,1],f32>
  %17 = torch.aten.mul.Tensor %10, %16 : !torch.vtensor<[64,512],f32>, !torch.vtensor<[64,1],f32> -> !torch.vtensor<[64,512],f32>
  return %17 : !torch.vtensor<[64,512],f32>
}
