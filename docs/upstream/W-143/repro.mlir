func.func @main(%x: !torch.vtensor<[1,32,5,7],f16>, %w: !torch.vtensor<[16,32,3,2],f16>) -> !torch.vtensor<[1,16,1,5],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %int2 = torch.constant.int 2
  %int3 = torch.constant.int 3
  %false = torch.constant.bool false
  %none = torch.constant.none
  %axis = torch.prim.ListConstruct %int3 : (!torch.int) -> !torch.list<int>
  %ones = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %twos = torch.prim.ListConstruct %int2, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
  %stored = torch.aten.flip %x, %axis : !torch.vtensor<[1,32,5,7],f16>, !torch.list<int> -> !torch.vtensor<[1,32,5,7],f16>
  %y = torch.aten.convolution %stored, %w, %none, %ones, %zeros, %twos, %false, %zeros, %int1 : !torch.vtensor<[1,32,5,7],f16>, !torch.vtensor<[16,32,3,2],f16>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,1,5],f32>
  return %y : !torch.vtensor<[1,16,1,5],f32>
}
