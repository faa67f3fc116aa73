func.func @main(%a: !torch.vtensor<[1,8],f16>, %b: !torch.vtensor<[8,16],i1>) -> !torch.vtensor<[1,16],f32> {
  %i5 = torch.constant.int 5
  %w = torch.prims.convert_element_type %b, %i5 : !torch.vtensor<[8,16],i1>, !torch.int -> !torch.vtensor<[8,16],f16>
  %y = torch.aten.mm %a, %w : !torch.vtensor<[1,8],f16>, !torch.vtensor<[8,16],f16> -> !torch.vtensor<[1,16],f32>
  return %y : !torch.vtensor<[1,16],f32>
}
