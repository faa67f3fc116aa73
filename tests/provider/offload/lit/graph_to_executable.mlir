// RUN: --hipdnn-offload --hipdnn-graph-to-executable --engine reference --split-input-file

// CHECK-LABEL: func.func @single_conv(
// CHECK: %[[R:.*]] = torch.operator "hipdnn.executable"({{.*}}) {graph = "hipdnn_graph_0"}
// CHECK-NOT: hipdnn.graph"
// CHECK: return %[[R]]
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
// CHECK: %[[A:.*]] = torch.operator "hipdnn.executable"({{.*}}) {graph = "hipdnn_graph_0"}
// CHECK: %[[B:.*]] = torch.operator "hipdnn.executable"(%[[A]], {{.*}}) {graph = "hipdnn_graph_1"}
// CHECK: return %[[B]]
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

// -----

// CHECK-LABEL: func.func @addmm_default(
// CHECK: %[[R:.*]] = torch.operator "hipdnn.executable"({{.*}}) {graph = "hipdnn_graph_0"}
// CHECK-NOT: hipdnn.graph"
// CHECK: return %[[R]]
func.func @addmm_default(%c: !torch.vtensor<[2],f32>, %a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %beta = torch.constant.int 1
  %alpha = torch.constant.int 1
  %0 = torch.aten.addmm %c, %a, %b, %beta, %alpha : !torch.vtensor<[2],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>, !torch.int, !torch.int -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// CHECK-LABEL: func.func @addmm_alpha_beta(
// CHECK: %[[R:.*]] = torch.operator "hipdnn.executable"({{.*}}) {graph = "hipdnn_graph_0"}
// CHECK-NOT: hipdnn.graph"
// CHECK: return %[[R]]
func.func @addmm_alpha_beta(%c: !torch.vtensor<[2],f32>, %a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %beta = torch.constant.int 2
  %alpha = torch.constant.int 3
  %0 = torch.aten.addmm %c, %a, %b, %beta, %alpha : !torch.vtensor<[2],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>, !torch.int, !torch.int -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// CHECK-LABEL: func.func @matmul(
// CHECK: %[[R:.*]] = torch.operator "hipdnn.executable"({{.*}}) {graph = "hipdnn_graph_0"}
// CHECK-NOT: hipdnn.graph"
// CHECK: return %[[R]]
func.func @matmul(%a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %0 = torch.aten.matmul %a, %b : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}
