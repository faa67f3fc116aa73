func.func @main(%x: !torch.vtensor<[1,9,1],f32>, %c: !torch.vtensor<[9,1,1],f32>) -> (!torch.vtensor<[9,9,1],f32>, !torch.vtensor<[9,10,1],f32>) {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i9 = torch.constant.int 9
  %false = torch.constant.bool false
  %size = torch.prim.ListConstruct %i1, %i9, %i9 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %wide = torch.aten.expand %x, %size, %false : !torch.vtensor<[1,9,1],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,9,9],f32>
  %order = torch.prim.ListConstruct %i1, %i2, %i0 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %t = torch.aten.permute %wide, %order : !torch.vtensor<[1,9,9],f32>, !torch.list<int> -> !torch.vtensor<[9,9,1],f32>
  %both = torch.prim.ListConstruct %t, %c : (!torch.vtensor<[9,9,1],f32>, !torch.vtensor<[9,1,1],f32>) -> !torch.list<vtensor<*,f32>>
  %y = torch.aten.cat %both, %i1 : !torch.list<vtensor<*,f32>>, !torch.int -> !torch.vtensor<[9,10,1],f32>
  return %t, %y : !torch.vtensor<[9,9,1],f32>, !torch.vtensor<[9,10,1],f32>
}
