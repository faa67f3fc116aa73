func.func @main(%z: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %int6 = torch.constant.int 6
  %nan = torch.aten.div.Tensor %z, %z : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %b = torch.aten.eq.Tensor %nan, %nan : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],i1>
  %r = torch.prims.convert_element_type %b, %int6 : !torch.vtensor<[4],i1>, !torch.int -> !torch.vtensor<[4],f32>
  return %r : !torch.vtensor<[4],f32>
}
