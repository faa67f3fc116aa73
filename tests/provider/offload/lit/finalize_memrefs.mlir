// RUN: --hipdnn-finalize-memrefs --split-input-file

// CHECK-LABEL: func.func @single_alloc(
// CHECK-SAME: %{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>, %[[OUT:.*]]: memref<4xf32>) {
// CHECK-NEXT: hipdnn.execute graph("g") ins({{.*}}) outs(%[[OUT]] : memref<4xf32>)
// CHECK-NEXT: return{{$}}
func.func @single_alloc(%x: memref<4xf32>, %w: memref<4xf32>) -> memref<4xf32> {
  %0 = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  hipdnn.execute graph("g") ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>)
  return %0 : memref<4xf32>
}

// -----

// CHECK-LABEL: func.func @two_ops_one_returned(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[OUT:.*]]: memref<4xf32>) {
// CHECK-NEXT: %[[A:.*]] = memref.alloc()
// CHECK: outs(%[[A]] : memref<4xf32>)
// CHECK: ins(%[[A]] : memref<4xf32>) outs(%[[OUT]] : memref<4xf32>)
// CHECK-NEXT: return{{$}}
func.func @two_ops_one_returned(%x: memref<4xf32>) -> memref<4xf32> {
  %0 = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  %1 = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  hipdnn.execute graph("g") ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>)
  hipdnn.execute graph("h") ins(%0 : memref<4xf32>) outs(%1 : memref<4xf32>)
  return %1 : memref<4xf32>
}

// -----

// CHECK-LABEL: func.func @no_alloc_return(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>) -> memref<4xf32> {
// CHECK-NEXT: return %[[X]] : memref<4xf32>
func.func @no_alloc_return(%x: memref<4xf32>) -> memref<4xf32> {
  return %x : memref<4xf32>
}

// -----

// A buffer that is returned twice is written once and copied.
// CHECK-LABEL: func.func @twice(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[A:.*]]: memref<4xf32>, %[[B:.*]]: memref<4xf32>) -> memref<4xf32> {
// CHECK-NEXT: hipdnn.execute graph("g") ins(%[[X]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>)
// CHECK-NEXT: memref.copy %[[A]], %[[B]]
// CHECK-NEXT: return %[[X]] : memref<4xf32>
func.func @twice(%x: memref<4xf32>) -> (memref<4xf32>, memref<4xf32>, memref<4xf32>) {
  %0 = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  hipdnn.execute graph("g") ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>)
  return %0, %x, %0 : memref<4xf32>, memref<4xf32>, memref<4xf32>
}

// -----

// Declarations stay; of several functions each is finalized; attributes of arguments are kept.
// CHECK: func.func private @declared(memref<4xf32>) -> memref<4xf32>
// CHECK: func.func @first(%{{.*}}: memref<4xf32> {test.name = "x"}, %[[OUT:.*]]: memref<4xf32>) {
// CHECK: func.func @second(%{{.*}}: memref<4xf32>) -> memref<4xf32> {
// CHECK: func.func @blocks(%{{.*}}: memref<4xf32>) -> memref<4xf32> {
func.func private @declared(memref<4xf32>) -> memref<4xf32>
func.func @first(%x: memref<4xf32> {test.name = "x"}) -> (memref<4xf32> {test.name = "y"}) {
  %0 = memref.alloc() {alignment = 64 : i64} : memref<4xf32>
  hipdnn.execute graph("g") ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>)
  return %0 : memref<4xf32>
}
func.func @second(%x: memref<4xf32>) -> memref<4xf32> {
  return %x : memref<4xf32>
}
func.func @blocks(%x: memref<4xf32>) -> memref<4xf32> {
  cf.br ^bb1
^bb1:
  %0 = memref.alloc() : memref<4xf32>
  return %0 : memref<4xf32>
}
