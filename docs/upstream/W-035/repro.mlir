func.func @main(%x: !torch.vtensor<[16,8],f32>, %w: !torch.vtensor<[8,8],f32>, %n: !torch.vtensor<[],si64>) -> !torch.vtensor<[?,8],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i16 = torch.constant.int 16
  %k = torch.aten.item %n : !torch.vtensor<[],si64> -> !torch.int
  %a = torch.aten.slice.Tensor %x, %i0, %i0, %k, %i1 : !torch.vtensor<[16,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[?,8],f32>
  %b = torch.aten.slice.Tensor %x, %i0, %k, %i16, %i1 : !torch.vtensor<[16,8],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[?,8],f32>
  %p = torch.aten.mm %a, %w : !torch.vtensor<[?,8],f32>, !torch.vtensor<[8,8],f32> -> !torch.vtensor<[?,8],f32>
  %q = torch.aten.mm %b, %w : !torch.vtensor<[?,8],f32>, !torch.vtensor<[8,8],f32> -> !torch.vtensor<[?,8],f32>
  %l = torch.prim.ListConstruct %p, %q : (!torch.vtensor<[?,8],f32>, !torch.vtensor<[?,8],f32>) -> !torch.list<vtensor<[?,8],f32>>
  %y = torch.aten.cat %l, %i0 : !torch.list<vtensor<[?,8],f32>>, !torch.int -> !torch.vtensor<[?,8],f32>
  return %y : !torch.vtensor<[?,8],f32>
}
