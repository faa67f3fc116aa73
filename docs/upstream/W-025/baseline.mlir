func.func @main(%x: !torch.vtensor<[1024,256],f32>, %i: !torch.vtensor<[1024],si64>, %w: !torch.vtensor<[256,256],f32>) -> !torch.vtensor<[1024,256],f32> {
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %h = torch.constant.int 512
  %e = torch.constant.int 1024
  %ia = torch.aten.slice.Tensor %i, %i0, %i0, %h, %i1 : !torch.vtensor<[1024],si64>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[512],si64>
  %ib = torch.aten.slice.Tensor %i, %i0, %h, %e, %i1 : !torch.vtensor<[1024],si64>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[512],si64>
  %a = torch.aten.index_select %x, %i0, %ia : !torch.vtensor<[1024,256],f32>, !torch.int, !torch.vtensor<[512],si64> -> !torch.vtensor<[512,256],f32>
  %b = torch.aten.index_select %x, %i0, %ib : !torch.vtensor<[1024,256],f32>, !torch.int, !torch.vtensor<[512],si64> -> !torch.vtensor<[512,256],f32>
  %l = torch.prim.ListConstruct %a, %b : (!torch.vtensor<[512,256],f32>, !torch.vtensor<[512,256],f32>) -> !torch.list<vtensor<[512,256],f32>>
  %g = torch.aten.cat %l, %i0 : !torch.list<vtensor<[512,256],f32>>, !torch.int -> !torch.vtensor<[1024,256],f32>
  %y = torch.aten.mm %g, %w : !torch.vtensor<[1024,256],f32>, !torch.vtensor<[256,256],f32> -> !torch.vtensor<[1024,256],f32>
  return %y : !torch.vtensor<[1024,256],f32>
}
