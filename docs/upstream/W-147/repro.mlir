func.func @main(%x: !torch.vtensor<[16],si8>) -> !torch.vtensor<[16],bf16> {
  %int6 = torch.constant.int 6
  %int15 = torch.constant.int 15
  %f = torch.prims.convert_element_type %x, %int6 : !torch.vtensor<[16],si8>, !torch.int -> !torch.vtensor<[16],f32>
  %h = torch.prims.convert_element_type %f, %int15 : !torch.vtensor<[16],f32>, !torch.int -> !torch.vtensor<[16],bf16>
  return %h : !torch.vtensor<[16],bf16>
}
