func.func @main(%x: !torch.vtensor<[16],f64>) -> !torch.vtensor<[16],f32> {
  %int6 = torch.constant.int 6
  %c = torch.constant.float 1.0039062509313226
  %int15 = torch.constant.int 15
  %a = torch.aten.mul.Scalar %x, %c : !torch.vtensor<[16],f64>, !torch.float -> !torch.vtensor<[16],f64>
  %h = torch.prims.convert_element_type %a, %int15 : !torch.vtensor<[16],f64>, !torch.int -> !torch.vtensor<[16],bf16>
  %r = torch.prims.convert_element_type %h, %int6 : !torch.vtensor<[16],bf16>, !torch.int -> !torch.vtensor<[16],f32>
  return %r : !torch.vtensor<[16],f32>
}
