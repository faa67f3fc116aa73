func.func @main(%x: !torch.vtensor<[2,3,16],f16>, %bias: !torch.vtensor<[1,1,16],f16>, %w: !torch.vtensor<[2,16,32],f16>) -> !torch.vtensor<[2,3,32],f32> {
  %i1 = torch.constant.int 1
  %z = torch.aten.sub.Tensor %x, %bias, %i1 : !torch.vtensor<[2,3,16],f16>, !torch.vtensor<[1,1,16],f16>, !torch.int -> !torch.vtensor<[2,3,16],f16>
  %y = torch.aten.bmm %z, %w : !torch.vtensor<[2,3,16],f16>, !torch.vtensor<[2,16,32],f16> -> !torch.vtensor<[2,3,32],f32>
  return %y : !torch.vtensor<[2,3,32],f32>
}
