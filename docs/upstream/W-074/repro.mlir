func.func @main(%a: !torch.vtensor<[32,32],f8E4M3FN>, %b: !torch.vtensor<[32,32],f8E4M3FN>) -> !torch.vtensor<[32,32],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.aten.mm %a, %b : !torch.vtensor<[32,32],f8E4M3FN>, !torch.vtensor<[32,32],f8E4M3FN> -> !torch.vtensor<[32,32],f32>
  return %1 : !torch.vtensor<[32,32],f32>
}
