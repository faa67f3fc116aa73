func.func @main(%x: !torch.vtensor<[1,4,8,8],ui8>) -> !torch.vtensor<[1,4,4,4],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 6
  %2 = torch.prims.convert_element_type %x, %1 : !torch.vtensor<[1,4,8,8],ui8>, !torch.int -> !torch.vtensor<[1,4,8,8],f32>
  %3 = torch.constant.int 2
  %4 = torch.constant.int 0
  %5 = torch.constant.int 7
  %6 = torch.aten.slice.Tensor %2, %3, %4, %5, %3 : !torch.vtensor<[1,4,8,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,8],f32>
  %7 = torch.constant.int 3
  %8 = torch.aten.slice.Tensor %6, %7, %4, %5, %3 : !torch.vtensor<[1,4,4,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,4],f32>
  %9 = torch.aten.slice.Tensor %2, %3, %4, %5, %3 : !torch.vtensor<[1,4,8,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,8],f32>
  %10 = torch.constant.int 1
  %11 = torch.constant.int 8
  %12 = torch.aten.slice.Tensor %9, %7, %10, %11, %3 : !torch.vtensor<[1,4,4,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,4],f32>
  %13 = torch.aten.slice.Tensor %2, %3, %10, %11, %3 : !torch.vtensor<[1,4,8,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,8],f32>
  %14 = torch.aten.slice.Tensor %13, %7, %4, %5, %3 : !torch.vtensor<[1,4,4,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,4],f32>
  %15 = torch.aten.slice.Tensor %2, %3, %10, %11, %3 : !torch.vtensor<[1,4,8,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,8],f32>
  %16 = torch.aten.slice.Tensor %15, %7, %10, %11, %3 : !torch.vtensor<[1,4,4,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,4,4,4],f32>
  %17 = torch.aten.maximum %8, %12 : !torch.vtensor<[1,4,4,4],f32>, !torch.vtensor<[1,4,4,4],f32> -> !torch.vtensor<[1,4,4,4],f32>
  %18 = torch.aten.maximum %17, %14 : !torch.vtensor<[1,4,4,4],f32>, !torch.vtensor<[1,4,4,4],f32> -> !torch.vtensor<[1,4,4,4],f32>
  %19 = torch.aten.maximum %18, %16 : !torch.vtensor<[1,4,4,4],f32>, !torch.vtensor<[1,4,4,4],f32> -> !torch.vtensor<[1,4,4,4],f32>
  return %19 : !torch.vtensor<[1,4,4,4],f32>
}
