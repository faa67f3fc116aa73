// RUN: --hipdnn-offload --hipdnn-offload --canonicalize --cse --hipdnn-offload

// A second run changes nothing; the region keeps its own constant beside an equal one outside.
// CHECK-LABEL: func.func @again(
// CHECK-NEXT: %[[OUTSIDE:.*]] = torch.constant.int 0
// CHECK-NEXT: %[[G:.*]] = torch.operator "hipdnn.graph"(%{{.*}})
// CHECK-NEXT: ^bb0
// CHECK-NEXT: %[[INSIDE:.*]] = torch.constant.int 0
// CHECK-NEXT: %[[S:.*]] = torch.aten.squeeze.dim %{{.*}}, %[[INSIDE]]
// CHECK-NEXT: torch.operator_terminator %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: torch.aten.triu %[[G]], %[[OUTSIDE]]
// CHECK-NOT: hipdnn
func.func @again(%x: !torch.vtensor<[1,4,4],f32>) -> !torch.vtensor<[4,4],f32> {
  %int0 = torch.constant.int 0
  %0 = torch.aten.squeeze.dim %x, %int0 : !torch.vtensor<[1,4,4],f32>, !torch.int -> !torch.vtensor<[4,4],f32>
  %1 = torch.aten.triu %0, %int0 : !torch.vtensor<[4,4],f32>, !torch.int -> !torch.vtensor<[4,4],f32>
  return %1 : !torch.vtensor<[4,4],f32>
}
