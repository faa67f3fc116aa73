func.func @main(%x: !torch.vtensor<[2,?,?],f32>) -> (!torch.vtensor<[1,1,?],f32>, !torch.vtensor<[2,?,?],f32>) attributes {torch.assume_strict_symbolic_shapes} {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %2 = torch.prim.ListConstruct %0, %1 : (!torch.int, !torch.int) -> !torch.list<int>
  %3 = torch.constant.bool true
  %4 = torch.constant.none
  %5 = torch.aten.sum.dim_IntList %x, %2, %3, %4 : !torch.vtensor<[2,?,?],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[1,1,?],f32>
  %6 = torch.aten.mul.Tensor %x, %5 : !torch.vtensor<[2,?,?],f32>, !torch.vtensor<[1,1,?],f32> -> !torch.vtensor<[2,?,?],f32>
  return %5, %6 : !torch.vtensor<[1,1,?],f32>, !torch.vtensor<[2,?,?],f32>
}
