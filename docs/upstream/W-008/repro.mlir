func.func @main(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = math.erf %x : tensor<8xf64>
  return %y : tensor<8xf64>
}

func.func @sine(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = math.sin %x : tensor<8xf64>
  return %y : tensor<8xf64>
}
