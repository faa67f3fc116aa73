func.func @main(%x: !torch.vtensor<[4,32,5,4],bf16>, %w: !torch.vtensor<[3,32,2,2],bf16>) -> !torch.vtensor<[4,3,4,3],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %false = torch.constant.bool false
  %none = torch.constant.none
  %ones = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %ones, %zeros, %ones, %false, %zeros, %int1 : !torch.vtensor<[4,32,5,4],bf16>, !torch.vtensor<[3,32,2,2],bf16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[4,3,4,3],f32>
  return %y : !torch.vtensor<[4,3,4,3],f32>
}
