func.func @main(%a: !torch.vtensor<[32,32],f16>, %b: !torch.vtensor<[32,32],bf16>) -> !torch.vtensor<[32,32],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 6
  %2 = torch.prims.convert_element_type %a, %1 : !torch.vtensor<[32,32],f16>, !torch.int -> !torch.vtensor<[32,32],f32>
  %3 = torch.prims.convert_element_type %b, %1 : !torch.vtensor<[32,32],bf16>, !torch.int -> !torch.vtensor<[32,32],f32>
  %4 = torch.aten.mm %2, %3 : !torch.vtensor<[32,32],f32>, !torch.vtensor<[32,32],f32> -> !torch.vtensor<[32,32],f32>
  return %4 : !torch.vtensor<[32,32],f32>
}
