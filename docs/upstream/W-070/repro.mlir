func.func @main(%a: !torch.vtensor<[2,6,8],f32>, %b: !torch.vtensor<[2,8,12],f32>) -> !torch.vtensor<[2,6,12],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.aten.bmm %a, %b : !torch.vtensor<[2,6,8],f32>, !torch.vtensor<[2,8,12],f32> -> !torch.vtensor<[2,6,12],f32>
  return %1 : !torch.vtensor<[2,6,12],f32>
}
