func.func @main(%a: !torch.vtensor<[2,7,8],f16>, %b: !torch.vtensor<[2,7,5],f16>) -> !torch.vtensor<[2,8,5],f32> {
  %i0 = torch.constant.int 1
  %i1 = torch.constant.int 2
  %t = torch.aten.transpose.int %a, %i0, %i1 : !torch.vtensor<[2,7,8],f16>, !torch.int, !torch.int -> !torch.vtensor<[2,8,7],f16>
  %y = torch.aten.bmm %t, %b : !torch.vtensor<[2,8,7],f16>, !torch.vtensor<[2,7,5],f16> -> !torch.vtensor<[2,8,5],f32>
  return %y : !torch.vtensor<[2,8,5],f32>
}
