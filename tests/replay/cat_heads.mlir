builtin.module {
  func.func @main(%x: !sym.t<[2, 3, 16], f32>, %y: !sym.t<[2, 5, 16], f32>) -> !sym.t<[2, 8, 16], f32> {
    %cat = aten.cat([%x, %y], 1) : (!sym.t<[2, 3, 16], f32>, !sym.t<[2, 5, 16], f32>) -> !sym.t<[2, 8, 16], f32>
    %mul = aten.mul.Tensor(%cat, 2) : (!sym.t<[2, 8, 16], f32>) -> !sym.t<[2, 8, 16], f32>
    func.return %mul : !sym.t<[2, 8, 16], f32>
  }
}
