func.func @main(%a: !torch.vtensor<[16,32],f16>, %b: !torch.vtensor<[32,48],f16>) -> !torch.vtensor<[3,16,16],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.aten.mm %a, %b : !torch.vtensor<[16,32],f16>, !torch.vtensor<[32,48],f16> -> !torch.vtensor<[16,48],f32>
  %2 = torch.constant.int 16
  %3 = torch.constant.int 3
  %4 = torch.prim.ListConstruct %2, %3, %2 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %5 = torch.aten.view %1, %4 : !torch.vtensor<[16,48],f32>, !torch.list<int> -> !torch.vtensor<[16,3,16],f32>
  %6 = torch.constant.int 1
  %7 = torch.constant.int 0
  %8 = torch.constant.int 2
  %9 = torch.prim.ListConstruct %6, %7, %8 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %10 = torch.aten.permute %5, %9 : !torch.vtensor<[16,3,16],f32>, !torch.list<int> -> !torch.vtensor<[3,16,16],f32>
  return %10 : !torch.vtensor<[3,16,16],f32>
}
