func.func @main(%a: !torch.vtensor<[4,8],si8>, %w: !torch.vtensor<[8,4],si8>) -> !torch.vtensor<[4,4],si8> {
  %y = torch.aten.mm %a, %w : !torch.vtensor<[4,8],si8>, !torch.vtensor<[8,4],si8> -> !torch.vtensor<[4,4],si8>
  return %y : !torch.vtensor<[4,4],si8>
}
