func.func @main(%x: !torch.vtensor<[1,5,4,3],f32>, %w: !torch.vtensor<[2,5,2,5],f32>) -> !torch.vtensor<[1,2,2,1],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %three = torch.constant.int 3
  %none = torch.constant.none
  %false = torch.constant.bool false
  %stride = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %padding = torch.prim.ListConstruct %zero, %three : (!torch.int, !torch.int) -> !torch.list<int>
  %dilation = torch.prim.ListConstruct %two, %two : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct  : () -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %stride, %padding, %dilation, %false, %empty, %one : !torch.vtensor<[1,5,4,3],f32>, !torch.vtensor<[2,5,2,5],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,2,1],f32>
  return %y : !torch.vtensor<[1,2,2,1],f32>
}
