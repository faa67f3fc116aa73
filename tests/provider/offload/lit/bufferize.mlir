// RUN: --eliminate-empty-tensors --one-shot-bufferize --split-input-file

// CHECK-LABEL: func.func @single(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>) -> memref<4xf32>
// CHECK-NEXT: %[[A:.*]] = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
// CHECK-NEXT: hipdnn.execute graph("g") ins(%[[X]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>){{$}}
// CHECK-NEXT: return %[[A]] : memref<4xf32>
func.func @single(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = hipdnn.execute graph("g") ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @two(
// CHECK: %[[A:.*]] = memref.alloc()
// CHECK: hipdnn.execute graph("g") ins({{.*}}) outs(%[[A]] : memref<4xf32>){{$}}
// CHECK: %[[B:.*]] = memref.alloc()
// CHECK: hipdnn.execute graph("h") ins(%[[A]] : memref<4xf32>) outs(%[[B]] : memref<4xf32>){{$}}
// CHECK: return %[[B]]
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = hipdnn.execute graph("g") ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.empty() : tensor<4xf32>
  %3 = hipdnn.execute graph("h") ins(%1 : tensor<4xf32>) outs(%2 : tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

// One empty tensor for two results that both live on: the second has memory of its own.
// CHECK-LABEL: func.func @shared(
// CHECK-COUNT-2: memref.alloc()
// CHECK-NOT: memref.copy
// CHECK: return
func.func @shared(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = hipdnn.execute graph("g") ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = hipdnn.execute graph("h") ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
