func.func @main(%a: !torch.vtensor<[3136,64],f32>, %w: !torch.vtensor<[64,64],f32>, %c: !torch.vtensor<[64,1],f32>) -> !torch.vtensor<[64,3136],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %h = torch.constant.int 1568
  %n = torch.constant.int 3136
  %m = torch.aten.mm %a, %w : !torch.vtensor<[3136,64],f32>, !torch.vtensor<[64,64],f32> -> !torch.vtensor<[3136,64],f32>
  %ma = torch.aten.slice.Tensor %m, %i0, %i0, %h, %i1 : !torch.vtensor<[3136,64],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1568,64],f32>
  %mb = torch.aten.slice.Tensor %m, %i0, %h, %n, %i1 : !torch.vtensor<[3136,64],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1568,64],f32>
  %l = torch.prim.ListConstruct %ma, %mb : (!torch.vtensor<[1568,64],f32>, !torch.vtensor<[1568,64],f32>) -> !torch.list<vtensor<[1568,64],f32>>
  %k = torch.aten.cat %l, %i0 : !torch.list<vtensor<[1568,64],f32>>, !torch.int -> !torch.vtensor<[3136,64],f32>
  %t = torch.aten.transpose.int %k, %i0, %i1 : !torch.vtensor<[3136,64],f32>, !torch.int, !torch.int -> !torch.vtensor<[64,3136],f32>
  %b = torch.aten.add.Tensor %t, %c, %i1 : !torch.vtensor<[64,3136],f32>, !torch.vtensor<[64,1],f32>, !torch.int -> !torch.vtensor<[64,3136],f32>
  %y = torch.aten.relu %b : !torch.vtensor<[64,3136],f32> -> !torch.vtensor<[64,3136],f32>
  return %y : !torch.vtensor<[64,3136],f32>
}
