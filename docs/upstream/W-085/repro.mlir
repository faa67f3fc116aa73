func.func @main(%x: !torch.vtensor<[8,300],bf16>, %scale: !torch.vtensor<[300],bf16>, %bias: !torch.vtensor<[300],bf16>) -> !torch.vtensor<[8,300],bf16> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 300
  %2 = torch.prim.ListConstruct %1 : (!torch.int) -> !torch.list<int>
  %3 = torch.constant.float 1.000000e-05
  %4 = torch.constant.bool false
  %5 = torch.aten.layer_norm %x, %2, %scale, %bias, %3, %4 : !torch.vtensor<[8,300],bf16>, !torch.list<int>, !torch.vtensor<[300],bf16>, !torch.vtensor<[300],bf16>, !torch.float, !torch.bool -> !torch.vtensor<[8,300],bf16>
  return %5 : !torch.vtensor<[8,300],bf16>
}
