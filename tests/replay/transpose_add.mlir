builtin.module {
  func.func @main(%x: !sym.t<[64, 32], f32>, %y: !sym.t<[32, 64], f32>) -> !sym.t<[32, 64], f32, strides=[1, 32]> {
    %t = aten.t(%x) : (!sym.t<[64, 32], f32>) -> !sym.t<[32, 64], f32, strides=[1, 32]>
    %add = aten.add.Tensor(%t, %y) : (!sym.t<[32, 64], f32, strides=[1, 32]>, !sym.t<[32, 64], f32>) -> !sym.t<[32, 64], f32, strides=[1, 32]>
    func.return %add : !sym.t<[32, 64], f32, strides=[1, 32]>
  }
}
