func.func @main(%x: !torch.vtensor<[5,4],f32>) -> !torch.vtensor<[4,4],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i4 = torch.constant.int 4
  %false = torch.constant.bool false
  %none = torch.constant.none
  %first = torch.prim.ListConstruct %i0 : (!torch.int) -> !torch.list<int>
  %y = torch.aten.sum.dim_IntList %x, %first, %false, %none : !torch.vtensor<[5,4],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[4],f32>
  %column = torch.prim.ListConstruct %i4, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %a = torch.aten.view %y, %column : !torch.vtensor<[4],f32>, !torch.list<int> -> !torch.vtensor<[4,1],f32>
  %row = torch.prim.ListConstruct %i1, %i4 : (!torch.int, !torch.int) -> !torch.list<int>
  %b = torch.aten.view %y, %row : !torch.vtensor<[4],f32>, !torch.list<int> -> !torch.vtensor<[1,4],f32>
  %z = torch.aten.mul.Tensor %a, %b : !torch.vtensor<[4,1],f32>, !torch.vtensor<[1,4],f32> -> !torch.vtensor<[4,4],f32>
  return %z : !torch.vtensor<[4,4],f32>
}
