func.func @main(%x: !torch.vtensor<[1,1,4,1],f32>, %a: !torch.vtensor<[16,1,1,1],f32>, %w: !torch.vtensor<[32,16,1,2],f32>) -> !torch.vtensor<[1,32,4,2],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i8 = torch.constant.int 8
  %i16 = torch.constant.int 16
  %false = torch.constant.bool false
  %none = torch.constant.none
  %empty = torch.prim.ListConstruct : () -> !torch.list<int>
  %ones = torch.prim.ListConstruct %i1, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %i0, %i0 : (!torch.int, !torch.int) -> !torch.list<int>
  %pads = torch.prim.ListConstruct %i0, %i1 : (!torch.int, !torch.int) -> !torch.list<int>
  %first = torch.aten.slice.Tensor %a, %i0, %i0, %i8, %i1 : !torch.vtensor<[16,1,1,1],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,1,1,1],f32>
  %second = torch.aten.slice.Tensor %a, %i0, %i8, %i16, %i1 : !torch.vtensor<[16,1,1,1],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[8,1,1,1],f32>
  %both = torch.prim.ListConstruct %first, %second : (!torch.vtensor<[8,1,1,1],f32>, !torch.vtensor<[8,1,1,1],f32>) -> !torch.list<vtensor<[8,1,1,1],f32>>
  %c = torch.aten.cat %both, %i0 : !torch.list<vtensor<[8,1,1,1],f32>>, !torch.int -> !torch.vtensor<[16,1,1,1],f32>
  %y = torch.aten.convolution %x, %c, %none, %ones, %zeros, %ones, %false, %empty, %i1 : !torch.vtensor<[1,1,4,1],f32>, !torch.vtensor<[16,1,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,4,1],f32>
  %z = torch.aten.convolution %y, %w, %none, %ones, %pads, %ones, %false, %empty, %i1 : !torch.vtensor<[1,16,4,1],f32>, !torch.vtensor<[32,16,1,2],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,32,4,2],f32>
  return %z : !torch.vtensor<[1,32,4,2],f32>
}
