// RUN: --size batch=5 --hipdnn-offload-pipeline --engine reference --verify-each

// All that follows from the arguments is known: products of sizes, and what the function returns.

// CHECK-LABEL: func.func @open(
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<5x2x4xf32>, %[[W:[a-z0-9]+]]: memref<4x3xf32>, %[[OUT:[a-z0-9]+]]: memref<10x3xf32>) {
// CHECK: hipdnn.execute graph("hipdnn_graph_0") ins(%[[X]], %[[W]] : memref<5x2x4xf32>, memref<4x3xf32>) outs(%[[OUT]] : memref<10x3xf32>)
// CHECK-NEXT: return{{$}}
func.func @open(%x: !torch.vtensor<[?,2,4],f32>, %w: !torch.vtensor<[4,3],f32>) -> !torch.vtensor<[?,3],f32> {
  %int0 = torch.constant.int 0
  %int2 = torch.constant.int 2
  %int4 = torch.constant.int 4
  %n = torch.aten.size.int %x, %int0 : !torch.vtensor<[?,2,4],f32>, !torch.int -> !torch.int
  %rows = torch.aten.mul.int %n, %int2 : !torch.int, !torch.int -> !torch.int
  %dims = torch.prim.ListConstruct %rows, %int4 : (!torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.view %x, %dims : !torch.vtensor<[?,2,4],f32>, !torch.list<int> -> !torch.vtensor<[?,4],f32>
  %1 = torch.aten.mm %0, %w : !torch.vtensor<[?,4],f32>, !torch.vtensor<[4,3],f32> -> !torch.vtensor<[?,3],f32>
  return %1 : !torch.vtensor<[?,3],f32>
}
