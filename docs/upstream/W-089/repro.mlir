func.func @main(%a: !torch.vtensor<[31,3],f32>, %b: !torch.vtensor<[3,3],f32>) -> !torch.vtensor<[2,30,3],f32> attributes {torch.assume_strict_symbolic_shapes} {
  %1 = torch.aten.mm %a, %b : !torch.vtensor<[31,3],f32>, !torch.vtensor<[3,3],f32> -> !torch.vtensor<[31,3],f32>
  %2 = torch.constant.int 1
  %3 = torch.constant.int 31
  %4 = torch.constant.int 3
  %5 = torch.prim.ListConstruct %2, %3, %4 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %6 = torch.aten.view %1, %5 : !torch.vtensor<[31,3],f32>, !torch.list<int> -> !torch.vtensor<[1,31,3],f32>
  %7 = torch.constant.int 0
  %8 = torch.constant.int 30
  %9 = torch.aten.slice.Tensor %6, %2, %7, %8, %2 : !torch.vtensor<[1,31,3],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[1,30,3],f32>
  %10 = torch.vtensor.literal(dense<1.500000e+00> : tensor<1x30x3xf32>) : !torch.vtensor<[1,30,3],f32>
  %11 = torch.prim.ListConstruct %9, %10 : (!torch.vtensor<[1,30,3],f32>, !torch.vtensor<[1,30,3],f32>) -> !torch.list<vtensor<[1,30,3],f32>>
  %12 = torch.aten.cat %11, %7 : !torch.list<vtensor<[1,30,3],f32>>, !torch.int -> !torch.vtensor<[2,30,3],f32>
  return %12 : !torch.vtensor<[2,30,3],f32>
}
