func.func @main(%y: !torch.tensor<[64,64],f16>, %flat: !torch.vtensor<[65512],f16>, %w: !torch.vtensor<[1000,64],f16>) attributes {torch.assume_strict_symbolic_shapes} {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %gap = torch.constant.int 24
  %rows = torch.constant.int 64
  %lda = torch.constant.int 1024
  %k = torch.constant.int 1000
  %half = torch.constant.int 5
  %zero = torch.constant.float 0.0
  %pads = torch.prim.ListConstruct %i0, %gap : (!torch.int, !torch.int) -> !torch.list<int>
  %whole = torch.aten.constant_pad_nd %flat, %pads, %zero : !torch.vtensor<[65512],f16>, !torch.list<int>, !torch.float -> !torch.vtensor<[65536],f16>
  %shape = torch.prim.ListConstruct %rows, %lda : (!torch.int, !torch.int) -> !torch.list<int>
  %block = torch.aten.view %whole, %shape : !torch.vtensor<[65536],f16>, !torch.list<int> -> !torch.vtensor<[64,1024],f16>
  %x = torch.aten.slice.Tensor %block, %i1, %i0, %k, %i1 : !torch.vtensor<[64,1024],f16>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[64,1000],f16>
  %m = torch.aten.mm %x, %w : !torch.vtensor<[64,1000],f16>, !torch.vtensor<[1000,64],f16> -> !torch.vtensor<[64,64],f32>
  %r = torch.prims.convert_element_type %m, %half : !torch.vtensor<[64,64],f32>, !torch.int -> !torch.vtensor<[64,64],f16>
  torch.overwrite.tensor.contents %r overwrites %y : !torch.vtensor<[64,64],f16>, !torch.tensor<[64,64],f16>
  return
}
