func.func @main(%a: !torch.vtensor<[2,17,9],f32>, %b: !torch.vtensor<[2,17,11],f32>) -> !torch.vtensor<[2,9,11],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 2
  %3 = torch.constant.int 1
  %4 = torch.prim.ListConstruct %1, %2, %3 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %5 = torch.aten.permute %a, %4 : !torch.vtensor<[2,17,9],f32>, !torch.list<int> -> !torch.vtensor<[2,9,17],f32>
  %6 = torch.aten.bmm %5, %b : !torch.vtensor<[2,9,17],f32>, !torch.vtensor<[2,17,11],f32> -> !torch.vtensor<[2,9,11],f32>
  return %6 : !torch.vtensor<[2,9,11],f32>
}
