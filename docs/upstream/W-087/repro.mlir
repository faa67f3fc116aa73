func.func @main(%dy: !torch.vtensor<[1,16,4,4],f32>, %w: !torch.vtensor<[16,16,3,3],f32>) -> !torch.vtensor<[1,16,6,6],f32> {
  %zero = torch.constant.int 0
  %one = torch.constant.int 1
  %none = torch.constant.none
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %ones = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
  %zeros = torch.prim.ListConstruct %zero, %zero : (!torch.int, !torch.int) -> !torch.list<int>
  %mask = torch.prim.ListConstruct %true, %false, %false : (!torch.bool, !torch.bool, !torch.bool) -> !torch.list<bool>
  %x = torch.vtensor.literal(dense<0.000000e+00> : tensor<1x16x6x6xf32>) : !torch.vtensor<[1,16,6,6],f32>
  %dx, %dw, %db = torch.aten.convolution_backward %dy, %x, %w, %none, %ones, %zeros, %ones, %false, %zeros, %one, %mask : !torch.vtensor<[1,16,4,4],f32>, !torch.vtensor<[1,16,6,6],f32>, !torch.vtensor<[16,16,3,3],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int, !torch.list<bool> -> !torch.vtensor<[1,16,6,6],f32>, !torch.none, !torch.none
  return %dx : !torch.vtensor<[1,16,6,6],f32>
}
