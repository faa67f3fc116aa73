func.func @main(%x: !torch.vtensor<[1,2,3,3,3],si8>, %w: !torch.vtensor<[2,1,2,2,2],si8>) -> !torch.vtensor<[1,2,2,2,2],si32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %g = torch.constant.int 2
  %none = torch.constant.none
  %f = torch.constant.bool false
  %one = torch.prim.ListConstruct %i1, %i1, %i1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %zero = torch.prim.ListConstruct %i0, %i0, %i0 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %e = torch.prim.ListConstruct : () -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %one, %zero, %one, %f, %e, %g : !torch.vtensor<[1,2,3,3,3],si8>, !torch.vtensor<[2,1,2,2,2],si8>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,2,2,2],si32>
  return %y : !torch.vtensor<[1,2,2,2,2],si32>
}
