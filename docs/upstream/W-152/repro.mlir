func.func @main(%a: !torch.vtensor<[8192,64],f32>, %b: !torch.vtensor<[8192,64],f32>) -> !torch.vtensor<[8192,128],f32> {
  %i1 = torch.constant.int 1
  %l = torch.prim.ListConstruct %a, %b : (!torch.vtensor<[8192,64],f32>, !torch.vtensor<[8192,64],f32>) -> !torch.list<vtensor<[8192,64],f32>>
  %y = torch.aten.cat %l, %i1 : !torch.list<vtensor<[8192,64],f32>>, !torch.int -> !torch.vtensor<[8192,128],f32>
  return %y : !torch.vtensor<[8192,128],f32>
}
