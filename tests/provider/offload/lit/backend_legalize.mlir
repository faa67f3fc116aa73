// RUN: --hipdnn-offload --hipdnn-graph-to-executable --hipdnn-backend-legalize --engine reference --split-input-file

// CHECK-LABEL: func.func @single_conv(
// CHECK-SAME: %[[X:.*]]: tensor<1x3x32x32xf32>, %[[W:.*]]: tensor<16x3x3x3xf32>, %[[B:.*]]: tensor<16xf32>) -> tensor<1x16x30x30xf32>
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<1x16x30x30xf32>
// CHECK-NEXT: %[[R:.*]] = hipdnn.execute graph("hipdnn_graph_0") ins(%[[X]], %[[W]], %[[B]] : tensor<1x3x32x32xf32>, tensor<16x3x3x3xf32>, tensor<16xf32>) outs(%[[E]] : tensor<1x16x30x30xf32>) -> tensor<1x16x30x30xf32>
// CHECK-NEXT: return %[[R]] : tensor<1x16x30x30xf32>
// CHECK-NOT: torch
func.func @single_conv(%x: !torch.vtensor<[1,3,32,32],f32>, %w: !torch.vtensor<[16,3,3,3],f32>, %b: !torch.vtensor<[16],f32>) -> !torch.vtensor<[1,16,30,30],f32> {
  %int1 = torch.constant.int 1
  %int0 = torch.constant.int 0
  %false = torch.constant.bool false
  %l1 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %l0 = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %le = torch.prim.ListConstruct  : () -> !torch.list<int>
  %0 = torch.aten.convolution %x, %w, %b, %l1, %l0, %l1, %false, %le, %int1 : !torch.vtensor<[1,3,32,32],f32>, !torch.vtensor<[16,3,3,3],f32>, !torch.vtensor<[16],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,30,30],f32>
  return %0 : !torch.vtensor<[1,16,30,30],f32>
}

// -----

// CHECK-LABEL: func.func @two_convs(
// CHECK: %[[E:.*]] = tensor.empty() : tensor<1x16x30x30xf32>
// CHECK: %[[A:.*]] = hipdnn.execute graph("hipdnn_graph_0") ins({{.*}}) outs(%[[E]] : tensor<1x16x30x30xf32>)
// CHECK: %[[F:.*]] = tensor.empty() : tensor<1x32x28x28xf32>
// CHECK: %[[B:.*]] = hipdnn.execute graph("hipdnn_graph_1") ins(%[[A]], {{.*}}) outs(%[[F]] : tensor<1x32x28x28xf32>)
// CHECK: return %[[B]] : tensor<1x32x28x28xf32>
// CHECK-NOT: torch
func.func @two_convs(%x: !torch.vtensor<[1,3,32,32],f32>, %w: !torch.vtensor<[16,3,3,3],f32>, %b: !torch.vtensor<[16],f32>, %w2: !torch.vtensor<[32,16,3,3],f32>, %b2: !torch.vtensor<[32],f32>) -> !torch.vtensor<[1,32,28,28],f32> {
  %int1 = torch.constant.int 1
  %int0 = torch.constant.int 0
  %false = torch.constant.bool false
  %l1 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %l0 = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %le = torch.prim.ListConstruct  : () -> !torch.list<int>
  %0 = torch.aten.convolution %x, %w, %b, %l1, %l0, %l1, %false, %le, %int1 : !torch.vtensor<[1,3,32,32],f32>, !torch.vtensor<[16,3,3,3],f32>, !torch.vtensor<[16],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,30,30],f32>
  %1 = torch.aten.convolution %0, %w2, %b2, %l1, %l0, %l1, %false, %le, %int1 : !torch.vtensor<[1,16,30,30],f32>, !torch.vtensor<[32,16,3,3],f32>, !torch.vtensor<[32],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,32,28,28],f32>
  return %1 : !torch.vtensor<[1,32,28,28],f32>
}
