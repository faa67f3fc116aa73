// Two results, one below the other in one output.
module {
  func.func @main(%y: !torch.tensor<[128,128],f32> {iree.abi.consume}, %x: !torch.vtensor<[64,128],f32>) {
    %int0 = torch.constant.int 0
    %int1 = torch.constant.int 1
    %int64 = torch.constant.int 64
    %int128 = torch.constant.int 128
    %0 = torch.aten.relu %x : !torch.vtensor<[64,128],f32> -> !torch.vtensor<[64,128],f32>
    %1 = torch.aten.exp %x : !torch.vtensor<[64,128],f32> -> !torch.vtensor<[64,128],f32>
    %2 = torch.copy.to_vtensor %y : !torch.vtensor<[128,128],f32>
    %3 = torch.aten.slice_scatter %2, %0, %int0, %int0, %int64, %int1 : !torch.vtensor<[128,128],f32>, !torch.vtensor<[64,128],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[128,128],f32>
    %4 = torch.aten.slice_scatter %3, %1, %int0, %int64, %int128, %int1 : !torch.vtensor<[128,128],f32>, !torch.vtensor<[64,128],f32>, !torch.int, !torch.int, !torch.int, !torch.int -> !torch.vtensor<[128,128],f32>
    torch.overwrite.tensor.contents %4 overwrites %y : !torch.vtensor<[128,128],f32>, !torch.tensor<[128,128],f32>
    return
  }
}
