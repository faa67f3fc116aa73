func.func @main(%a: !torch.vtensor<[32,96],f16>, %b: !torch.vtensor<[96,32],f16>) -> !torch.vtensor<[32,32],f16> {
  %c = torch.aten.mm %a, %b : !torch.vtensor<[32,96],f16>, !torch.vtensor<[96,32],f16> -> !torch.vtensor<[32,32],f32>
  %int5 = torch.constant.int 5
  %d = torch.prims.convert_element_type %c, %int5 : !torch.vtensor<[32,32],f32>, !torch.int -> !torch.vtensor<[32,32],f16>
  return %d : !torch.vtensor<[32,32],f16>
}
