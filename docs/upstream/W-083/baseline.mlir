func.func @main(%q: !torch.vtensor<[2,64,16],f32>, %k: !torch.vtensor<[2,448,16],f32>, %v: !torch.vtensor<[2,448,16],f32>) -> !torch.vtensor<[2,64,16],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.constant.int 0
  %2 = torch.constant.int 2
  %3 = torch.constant.int 1
  %4 = torch.prim.ListConstruct %1, %2, %3 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %5 = torch.aten.permute %k, %4 : !torch.vtensor<[2,448,16],f32>, !torch.list<int> -> !torch.vtensor<[2,16,448],f32>
  %6 = torch.aten.bmm %q, %5 : !torch.vtensor<[2,64,16],f32>, !torch.vtensor<[2,16,448],f32> -> !torch.vtensor<[2,64,448],f32>
  %7 = torch.prim.ListConstruct %2 : (!torch.int) -> !torch.list<int>
  %8 = torch.constant.bool true
  %9 = torch.aten.amax %6, %7, %8 : !torch.vtensor<[2,64,448],f32>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2,64,1],f32>
  %10 = torch.aten.sub.Tensor %6, %9, %3 : !torch.vtensor<[2,64,448],f32>, !torch.vtensor<[2,64,1],f32>, !torch.int -> !torch.vtensor<[2,64,448],f32>
  %11 = torch.aten.exp %10 : !torch.vtensor<[2,64,448],f32> -> !torch.vtensor<[2,64,448],f32>
  %12 = torch.constant.none
  %13 = torch.aten.sum.dim_IntList %11, %7, %8, %12 : !torch.vtensor<[2,64,448],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[2,64,1],f32>
  %14 = torch.aten.bmm %11, %v : !torch.vtensor<[2,64,448],f32>, !torch.vtensor<[2,448,16],f32> -> !torch.vtensor<[2,64,16],f32>
  %15 = torch.aten.div.Tensor %14, %13 : !torch.vtensor<[2,64,16],f32>, !torch.vtensor<[2,64,1],f32> -> !torch.vtensor<[2,64,16],f32>
  return %15 : !torch.vtensor<[2,64,16],f32>
}
