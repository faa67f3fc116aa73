func.func @main(%a: !torch.vtensor<[512,512],bf16>, %b: !torch.vtensor<[512,512],bf16>) -> !torch.vtensor<[512,512],f32> {
  %c = torch.aten.mm %a, %b : !torch.vtensor<[512,512],bf16>, !torch.vtensor<[512,512],bf16> -> !torch.vtensor<[512,512],f32>
  return %c : !torch.vtensor<[512,512],f32>
}
