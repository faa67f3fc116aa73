// RUN: --hipdnn-offload-pipeline --engine reference --split-input-file --verify-each

// CHECK-LABEL: func.func @matmul(
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: memref<4x2xf32>) {
// CHECK-NEXT: hipdnn.execute graph("hipdnn_graph_0") ins({{.*}} : memref<4x8xf32>, memref<8x2xf32>) outs(%[[OUT]] : memref<4x2xf32>)
// CHECK-NEXT: return{{$}}
func.func @matmul(%a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %0 = torch.aten.matmul %a, %b : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// CHECK-LABEL: func.func @mm(
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: memref<4x2xf32>) {
// CHECK-NEXT: hipdnn.execute graph("hipdnn_graph_0") ins({{.*}} : memref<4x8xf32>, memref<8x2xf32>) outs(%[[OUT]] : memref<4x2xf32>)
// CHECK-NEXT: return{{$}}
func.func @mm(%a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %0 = torch.aten.mm %a, %b : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// CHECK-LABEL: func.func @addmm(
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: memref<4x2xf32>) {
// CHECK-NEXT: hipdnn.execute graph("hipdnn_graph_0") ins({{.*}} : memref<2xf32>, memref<4x8xf32>, memref<8x2xf32>) outs(%[[OUT]] : memref<4x2xf32>)
// CHECK-NEXT: return{{$}}
func.func @addmm(%c: !torch.vtensor<[2],f32>, %a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %beta = torch.constant.int 1
  %alpha = torch.constant.int 2
  %0 = torch.aten.addmm %c, %a, %b, %beta, %alpha : !torch.vtensor<[2],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>, !torch.int, !torch.int -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// CHECK-LABEL: func.func @single_conv(
// CHECK-SAME: %[[X:.*]]: memref<1x3x32x32xf32>, %[[W:.*]]: memref<16x3x3x3xf32>, %[[B:.*]]: memref<16xf32>, %[[OUT:.*]]: memref<1x16x30x30xf32>) {
// CHECK-NEXT: hipdnn.execute graph("hipdnn_graph_0") ins(%[[X]], %[[W]], %[[B]] : memref<1x3x32x32xf32>, memref<16x3x3x3xf32>, memref<16xf32>) outs(%[[OUT]] : memref<1x16x30x30xf32>)
// CHECK-NEXT: return{{$}}
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
// CHECK-SAME: %[[X:.*]]: memref<1x3x32x32xf32>, %[[W:.*]]: memref<16x3x3x3xf32>, %[[B:.*]]: memref<16xf32>, %[[V:.*]]: memref<32x16x3x3xf32>, %[[C:.*]]: memref<32xf32>, %[[OUT:.*]]: memref<1x32x28x28xf32>) {
// CHECK-NEXT: %[[A:.*]] = memref.alloc() {alignment = 64 : i64} : memref<1x16x30x30xf32>
// CHECK-NEXT: hipdnn.execute graph("hipdnn_graph_0") ins(%[[X]], %[[W]], %[[B]] : {{.*}}) outs(%[[A]] : memref<1x16x30x30xf32>)
// CHECK-NEXT: hipdnn.execute graph("hipdnn_graph_1") ins(%[[A]], %[[V]], %[[C]] : {{.*}}) outs(%[[OUT]] : memref<1x32x28x28xf32>)
// CHECK-NEXT: return{{$}}
// CHECK-NEXT: }
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
