// RUN: --hipdnn-offload --split-input-file

// CHECK-LABEL: func.func @matmul(
// CHECK-SAME: %[[A:.*]]: !torch.vtensor<[4,8],f32>, %[[B:.*]]: !torch.vtensor<[8,2],f32>)
// CHECK: %[[G:.*]] = torch.operator "hipdnn.graph"(%[[A]], %[[B]]) : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
// CHECK-NEXT: ^bb0(%[[X:.*]]: !torch.vtensor<[4,8],f32>, %[[Y:.*]]: !torch.vtensor<[8,2],f32>):
// CHECK-NEXT: %[[R:.*]] = torch.aten.matmul %[[X]], %[[Y]]
// CHECK-NEXT: torch.operator_terminator %[[R]] : !torch.vtensor<[4,2],f32>
// CHECK: return %[[G]]
func.func @matmul(%a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %0 = torch.aten.matmul %a, %b : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// CHECK-LABEL: func.func @mm(
// CHECK: torch.operator "hipdnn.graph"(%{{.*}}, %{{.*}}) : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>)
// CHECK: torch.aten.mm
// CHECK: torch.operator_terminator
func.func @mm(%a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %0 = torch.aten.mm %a, %b : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// An integer constant is cloned into the region, a float one too.
// CHECK-LABEL: func.func @addmm(
// CHECK: torch.operator "hipdnn.graph"(%[[C:.*]], %[[A:.*]], %[[B:.*]]) : (!torch.vtensor<[2],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
// CHECK-DAG: %[[BETA:.*]] = torch.constant.int 1
// CHECK-DAG: %[[ALPHA:.*]] = torch.constant.float 2.5{{.*}}
// CHECK: torch.aten.addmm %{{.*}}, %{{.*}}, %{{.*}}, %[[BETA]], %[[ALPHA]]
// CHECK: torch.operator_terminator
func.func @addmm(%c: !torch.vtensor<[2],f32>, %a: !torch.vtensor<[4,8],f32>, %b: !torch.vtensor<[8,2],f32>) -> !torch.vtensor<[4,2],f32> {
  %int1 = torch.constant.int 1
  %alpha = torch.constant.float 2.5
  %0 = torch.aten.addmm %c, %a, %b, %int1, %alpha : !torch.vtensor<[2],f32>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32>, !torch.int, !torch.float -> !torch.vtensor<[4,2],f32>
  return %0 : !torch.vtensor<[4,2],f32>
}

// -----

// Constants, lists, convolution and terminator are inside; nothing of them stays outside.
// CHECK-LABEL: func.func @conv2d(
// CHECK-NEXT: torch.operator "hipdnn.graph"(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK: torch.constant.int 1
// CHECK: torch.prim.ListConstruct
// CHECK: torch.aten.conv2d
// CHECK: torch.operator_terminator
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @conv2d(%x: !torch.vtensor<[1,3,8,8],f32>, %w: !torch.vtensor<[4,3,3,3],f32>, %b: !torch.vtensor<[4],f32>) -> !torch.vtensor<[1,4,3,3],f32> {
  %int1 = torch.constant.int 1
  %int2 = torch.constant.int 2
  %int0 = torch.constant.int 0
  %s = torch.prim.ListConstruct %int2, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
  %p = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %d = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.conv2d %x, %w, %b, %s, %p, %d, %int1 : !torch.vtensor<[1,3,8,8],f32>, !torch.vtensor<[4,3,3,3],f32>, !torch.vtensor<[4],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,3,3],f32>
  return %0 : !torch.vtensor<[1,4,3,3],f32>
}

// -----

// CHECK-LABEL: func.func @sigmoid(
// CHECK-SAME: %[[X:.*]]: !torch.vtensor<[4],f32>)
// CHECK: torch.operator "hipdnn.graph"(%[[X]]) : (!torch.vtensor<[4],f32>)
// CHECK: torch.aten.sigmoid
func.func @sigmoid(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %0 = torch.aten.sigmoid %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

// -----

// An op without a form stays.
// CHECK-LABEL: func.func @not_outlined(
// CHECK-NOT: hipdnn.graph
// CHECK: torch.aten.triu
// CHECK-NOT: hipdnn.graph
func.func @not_outlined(%x: !torch.vtensor<[4,4],f32>) -> !torch.vtensor<[4,4],f32> {
  %int0 = torch.constant.int 0
  %0 = torch.aten.triu %x, %int0 : !torch.vtensor<[4,4],f32>, !torch.int -> !torch.vtensor<[4,4],f32>
  return %0 : !torch.vtensor<[4,4],f32>
}

// -----

// What is fused to a matmul is in its region: bias, activation, the transposed weight, a residual.
// CHECK-LABEL: func.func @chain(
// CHECK: torch.operator "hipdnn.graph"
// CHECK: torch.aten.t
// CHECK: torch.aten.mm
// CHECK: torch.aten.add.Tensor
// CHECK: torch.aten.relu
// CHECK: torch.operator_terminator
// CHECK-NOT: hipdnn.graph
// CHECK: return
func.func @chain(%a: !torch.vtensor<[4,8],f32>, %w: !torch.vtensor<[2,8],f32>, %b: !torch.vtensor<[2],f32>) -> !torch.vtensor<[4,2],f32> {
  %int1 = torch.constant.int 1
  %t = torch.aten.t %w : !torch.vtensor<[2,8],f32> -> !torch.vtensor<[8,2],f32>
  %0 = torch.aten.mm %a, %t : !torch.vtensor<[4,8],f32>, !torch.vtensor<[8,2],f32> -> !torch.vtensor<[4,2],f32>
  %1 = torch.aten.add.Tensor %0, %b, %int1 : !torch.vtensor<[4,2],f32>, !torch.vtensor<[2],f32>, !torch.int -> !torch.vtensor<[4,2],f32>
  %2 = torch.aten.relu %1 : !torch.vtensor<[4,2],f32> -> !torch.vtensor<[4,2],f32>
  return %2 : !torch.vtensor<[4,2],f32>
}

// -----

// The last addition reads what the op in between makes of the first region: it cannot join it.
// CHECK-LABEL: func.func @convex(
// CHECK: %[[A:.*]] = torch.operator "hipdnn.graph"(%{{.*}})
// CHECK: torch.aten.relu
// CHECK: }
// CHECK: %[[T:.*]] = torch.aten.triu %[[A]]
// CHECK: torch.operator "hipdnn.graph"(%[[A]], %[[T]])
// CHECK: torch.aten.add.Tensor
func.func @convex(%x: !torch.vtensor<[4,4],f32>) -> !torch.vtensor<[4,4],f32> {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %0 = torch.aten.relu %x : !torch.vtensor<[4,4],f32> -> !torch.vtensor<[4,4],f32>
  %1 = torch.aten.triu %0, %int0 : !torch.vtensor<[4,4],f32>, !torch.int -> !torch.vtensor<[4,4],f32>
  %2 = torch.aten.add.Tensor %0, %1, %int1 : !torch.vtensor<[4,4],f32>, !torch.vtensor<[4,4],f32>, !torch.int -> !torch.vtensor<[4,4],f32>
  return %2 : !torch.vtensor<[4,4],f32>
}

// -----

// Two convolutions are two regions; what each is followed by belongs to it.
// CHECK-LABEL: func.func @residual(
// CHECK-COUNT-2: torch.operator "hipdnn.graph"
// CHECK-NOT: torch.operator "hipdnn.graph"
// CHECK: torch.aten.add.Tensor
// CHECK-NEXT: torch.aten.relu
// CHECK: return
func.func @residual(%x: !torch.vtensor<[1,4,8,8],f32>, %w: !torch.vtensor<[4,4,1,1],f32>, %v: !torch.vtensor<[4,4,1,1],f32>) -> !torch.vtensor<[1,4,8,8],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %l1 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %l0 = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.convolution %x, %w, %none, %l1, %l0, %l1, %false, %l0, %int1 : !torch.vtensor<[1,4,8,8],f32>, !torch.vtensor<[4,4,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,8,8],f32>
  %1 = torch.aten.relu %0 : !torch.vtensor<[1,4,8,8],f32> -> !torch.vtensor<[1,4,8,8],f32>
  %2 = torch.aten.convolution %1, %v, %none, %l1, %l0, %l1, %false, %l0, %int1 : !torch.vtensor<[1,4,8,8],f32>, !torch.vtensor<[4,4,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,8,8],f32>
  %3 = torch.aten.add.Tensor %2, %x, %int1 : !torch.vtensor<[1,4,8,8],f32>, !torch.vtensor<[1,4,8,8],f32>, !torch.int -> !torch.vtensor<[1,4,8,8],f32>
  %4 = torch.aten.relu %3 : !torch.vtensor<[1,4,8,8],f32> -> !torch.vtensor<[1,4,8,8],f32>
  return %4 : !torch.vtensor<[1,4,8,8],f32>
}
