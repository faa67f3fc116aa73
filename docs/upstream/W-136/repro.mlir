func.func @main(%x: !torch.vtensor<[1,1,2,7],f32>, %w: !torch.vtensor<[32,1,1,1],f32>) -> (!torch.vtensor<[1,32,1,4],f32>, !torch.vtensor<[1,1,2,7],f16>) {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i5 = torch.constant.int 5
  %none = torch.constant.none
  %false = torch.constant.bool false
  %half = torch.vtensor.literal(dense<5.000000e-01> : tensor<1xf32>) : !torch.vtensor<[1],f32>
  %size = torch.aten.abs %x : !torch.vtensor<[1,1,2,7],f32> -> !torch.vtensor<[1,1,2,7],f32>
  %c = torch.aten.add.Tensor %size, %half, %i1 : !torch.vtensor<[1,1,2,7],f32>, !torch.vtensor<[1],f32>, !torch.int -> !torch.vtensor<[1,1,2,7],f32>
  %stride = torch.prim.ListConstruct %i2, %i2 : (!torch.int, !torch.int) -> !torch.list<int>
  %padding = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %dilation = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct : () -> !torch.list<int>
  %y = torch.aten.convolution %c, %w, %none, %stride, %padding, %dilation, %false, %empty, %i1 : !torch.vtensor<[1,1,2,7],f32>, !torch.vtensor<[32,1,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,32,1,4],f32>
  %root = torch.aten.sqrt %c : !torch.vtensor<[1,1,2,7],f32> -> !torch.vtensor<[1,1,2,7],f32>
  %z = torch.prims.convert_element_type %root, %i5 : !torch.vtensor<[1,1,2,7],f32>, !torch.int -> !torch.vtensor<[1,1,2,7],f16>
  return %y, %z : !torch.vtensor<[1,32,1,4],f32>, !torch.vtensor<[1,1,2,7],f16>
}
