func.func @main(%x: !torch.vtensor<[1,16,15],f16>, %dy: !torch.vtensor<[8,6],f32>, %w: !torch.vtensor<[8,15,1],f32>) -> (!torch.vtensor<[8,15],f32>, !torch.vtensor<[1,8,6],f32>) {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i3 = torch.constant.int 3
  %i6 = torch.constant.int 6
  %i15 = torch.constant.int 15
  %i16 = torch.constant.int 16
  %none = torch.constant.none
  %false = torch.constant.bool false
  %turn = torch.prim.ListConstruct %i0, %i2, %i1 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %wide = torch.prims.convert_element_type %x, %i6 : !torch.vtensor<[1,16,15],f16>, !torch.int -> !torch.vtensor<[1,16,15],f32>
  %c = torch.aten.permute %wide, %turn : !torch.vtensor<[1,16,15],f32>, !torch.list<int> -> !torch.vtensor<[1,15,16],f32>
  %part = torch.aten.slice.Tensor %c, %i2, %i0, %i16, %i3 : !torch.vtensor<[1,15,16],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,15,6],f32>
  %turned = torch.aten.permute %part, %turn : !torch.vtensor<[1,15,6],f32>, !torch.list<int> -> !torch.vtensor<[1,6,15],f32>
  %dims = torch.prim.ListConstruct %i6, %i15 : (!torch.int, !torch.int) -> !torch.list<int>
  %matrix = torch.aten.view %turned, %dims : !torch.vtensor<[1,6,15],f32>, !torch.list<int> -> !torch.vtensor<[6,15],f32>
  %dw = torch.aten.mm %dy, %matrix : !torch.vtensor<[8,6],f32>, !torch.vtensor<[6,15],f32> -> !torch.vtensor<[8,15],f32>
  %stride = torch.prim.ListConstruct %i3 : (!torch.int) -> !torch.list<int>
  %padding = torch.prim.ListConstruct %i0 : (!torch.int) -> !torch.list<int>
  %dilation = torch.prim.ListConstruct %i1 : (!torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct : () -> !torch.list<int>
  %y = torch.aten.convolution %c, %w, %none, %stride, %padding, %dilation, %false, %empty, %i1 : !torch.vtensor<[1,15,16],f32>, !torch.vtensor<[8,15,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,8,6],f32>
  return %dw, %y : !torch.vtensor<[8,15],f32>, !torch.vtensor<[1,8,6],f32>
}
