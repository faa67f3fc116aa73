func.func @main(%q: !torch.vtensor<[1,1,13,4],bf16>, %k: !torch.vtensor<[1,1,1,4],bf16>, %v: !torch.vtensor<[1,1,1,3],bf16>) -> !torch.vtensor<[1,1,13,3],bf16> {
  %none = torch.constant.none
  %dropout = torch.constant.float 0.000000e+00
  %scale = torch.constant.float 5.000000e-01
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %o = torch.aten.scaled_dot_product_attention %q, %k, %v, %none, %dropout, %true, %scale, %false : !torch.vtensor<[1,1,13,4],bf16>, !torch.vtensor<[1,1,1,4],bf16>, !torch.vtensor<[1,1,1,3],bf16>, !torch.none, !torch.float, !torch.bool, !torch.float, !torch.bool -> !torch.vtensor<[1,1,13,3],bf16>
  return %o : !torch.vtensor<[1,1,13,3],bf16>
}
