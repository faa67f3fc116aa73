func.func @main(%a: !torch.vtensor<[512,512],bf16>, %b: !torch.vtensor<[512,512],bf16>) -> !torch.vtensor<[512,512],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i6 = torch.constant.int 6
  %i256 = torch.constant.int 256
  %i512 = torch.constant.int 512
  %af = torch.prims.convert_element_type %a, %i6 : !torch.vtensor<[512,512],bf16>, !torch.int -> !torch.vtensor<[512,512],f32>
  %a0 = torch.aten.slice.Tensor %af, %i0, %i0, %i256, %i1 : !torch.vtensor<[512,512],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[256,512],f32>
  %a1 = torch.aten.slice.Tensor %af, %i0, %i256, %i512, %i1 : !torch.vtensor<[512,512],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[256,512],f32>
  %al = torch.prim.ListConstruct %a0, %a1 : (!torch.vtensor<[256,512],f32>, !torch.vtensor<[256,512],f32>) -> !torch.list<vtensor<[256,512],f32>>
  %ac = torch.aten.cat %al, %i0 : !torch.list<vtensor<[256,512],f32>>, !torch.int -> !torch.vtensor<[512,512],f32>
  %bf = torch.prims.convert_element_type %b, %i6 : !torch.vtensor<[512,512],bf16>, !torch.int -> !torch.vtensor<[512,512],f32>
  %b0 = torch.aten.slice.Tensor %bf, %i0, %i0, %i256, %i1 : !torch.vtensor<[512,512],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[256,512],f32>
  %b1 = torch.aten.slice.Tensor %bf, %i0, %i256, %i512, %i1 : !torch.vtensor<[512,512],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[256,512],f32>
  %bl = torch.prim.ListConstruct %b0, %b1 : (!torch.vtensor<[256,512],f32>, !torch.vtensor<[256,512],f32>) -> !torch.list<vtensor<[256,512],f32>>
  %bc = torch.aten.cat %bl, %i0 : !torch.list<vtensor<[256,512],f32>>, !torch.int -> !torch.vtensor<[512,512],f32>
  %c = torch.aten.mm %ac, %bc : !torch.vtensor<[512,512],f32>, !torch.vtensor<[512,512],f32> -> !torch.vtensor<[512,512],f32>
  return %c : !torch.vtensor<[512,512],f32>
}
