func.func @main(%a: !torch.vtensor<[65,7],f16>, %b: !torch.vtensor<[7,2],f16>) -> !torch.vtensor<[65,2],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %0 = torch.aten.mm %a, %b : !torch.vtensor<[65,7],f16>, !torch.vtensor<[7,2],f16> -> !torch.vtensor<[65,2],f32>
  return %0 : !torch.vtensor<[65,2],f32>
}
