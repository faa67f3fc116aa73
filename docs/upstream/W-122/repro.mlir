func.func @main(%x: !torch.vtensor<[1,2,7],f32>, %w: !torch.vtensor<[2,2,1],f32>) -> !torch.vtensor<[1,2,13],f32> {
  %none = torch.constant.none
  %one = torch.constant.int 1
  %two = torch.constant.int 2
  %true = torch.constant.bool true
  %ones = torch.prim.ListConstruct %one : (!torch.int) -> !torch.list<int>
  %twos = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %y = torch.aten.convolution %x, %w, %none, %twos, %ones, %ones, %true, %twos, %one : !torch.vtensor<[1,2,7],f32>, !torch.vtensor<[2,2,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,2,13],f32>
  return %y : !torch.vtensor<[1,2,13],f32>
}
