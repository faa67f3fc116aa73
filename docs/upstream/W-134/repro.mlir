func.func @main() -> (!torch.vtensor<[8],f64>, !torch.vtensor<[8],f64>) attributes {torch.assume_strict_symbolic_shapes} {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i4 = torch.constant.int 4
  %i7 = torch.constant.int 7
  %i8 = torch.constant.int 8
  %none = torch.constant.none
  %eighth = torch.constant.float 1.250000e-01
  %0 = torch.aten.arange.start_step %i0, %i8, %i1, %i4, %none, %none, %none : !torch.int, !torch.int, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[8],si64>
  %1 = torch.prims.convert_element_type %0, %i7 : !torch.vtensor<[8],si64>, !torch.int -> !torch.vtensor<[8],f64>
  %2 = torch.aten.mul.Scalar %1, %eighth : !torch.vtensor<[8],f64>, !torch.float -> !torch.vtensor<[8],f64>
  %3 = torch.aten.tanh %2 : !torch.vtensor<[8],f64> -> !torch.vtensor<[8],f64>
  return %2, %3 : !torch.vtensor<[8],f64>, !torch.vtensor<[8],f64>
}
