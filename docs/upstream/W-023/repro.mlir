func.func @main(%x: !torch.vtensor<[1,6,4,7],f32>, %k: !torch.vtensor<[],f32>, %v: !torch.vtensor<[3,7,5],f32>) -> (!torch.vtensor<[1,6,4,5],f32>, !torch.vtensor<[1,6,4,1],f32>) {
  %int1 = torch.constant.int 1
  %int3 = torch.constant.int 3
  %int8 = torch.constant.int 8
  %int7 = torch.constant.int 7
  %int6 = torch.constant.int 6
  %int4 = torch.constant.int 4
  %l = torch.aten.mul.Tensor %x, %k : !torch.vtensor<[1,6,4,7],f32>, !torch.vtensor<[],f32> -> !torch.vtensor<[1,6,4,7],f32>
  %none = torch.constant.none
  %d = torch.prim.ListConstruct %int3 : (!torch.int) -> !torch.list<int>
  %t = torch.constant.bool true
  %max = torch.aten.amax %l, %d, %t : !torch.vtensor<[1,6,4,7],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,6,4,1],f32>
  %c = torch.aten.sub.Tensor %l, %max, %int1 : !torch.vtensor<[1,6,4,7],f32>, !torch.vtensor<[1,6,4,1],f32>, !torch.int -> !torch.vtensor<[1,6,4,7],f32>
  %e = torch.aten.exp %c : !torch.vtensor<[1,6,4,7],f32> -> !torch.vtensor<[1,6,4,7],f32>
  %z = torch.aten.sum.dim_IntList %e, %d, %t, %none : !torch.vtensor<[1,6,4,7],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,6,4,1],f32>
  %w = torch.aten.div.Tensor %e, %z : !torch.vtensor<[1,6,4,7],f32>, !torch.vtensor<[1,6,4,1],f32> -> !torch.vtensor<[1,6,4,7],f32>
  %s = torch.prim.ListConstruct %int3, %int8, %int7 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %m = torch.aten.view %w, %s : !torch.vtensor<[1,6,4,7],f32>, !torch.list<int> -> !torch.vtensor<[3,8,7],f32>
  %int5 = torch.constant.int 5
  %p = torch.aten.bmm %m, %v : !torch.vtensor<[3,8,7],f32>, !torch.vtensor<[3,7,5],f32> -> !torch.vtensor<[3,8,5],f32>
  %o = torch.prim.ListConstruct %int1, %int6, %int4, %int5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %y = torch.aten.view %p, %o : !torch.vtensor<[3,8,5],f32>, !torch.list<int> -> !torch.vtensor<[1,6,4,5],f32>
  return %y, %max : !torch.vtensor<[1,6,4,5],f32>, !torch.vtensor<[1,6,4,1],f32>
}
