builtin.module attributes {lamella.hints = {s0 = 8 : i64, s85 = 2 : i64}} {
  func.func @main(%q: !sym.t<[s85, 4, s0, 64], f32>, %cos: !sym.t<[s0, 64], f32>, %sin: !sym.t<[s0, 64], f32>) -> !sym.t<[s85, 4, s0, 64], f32> {
    %split, %split_1 = aten.split.Tensor(%q, 32, -1) : (!sym.t<[s85, 4, s0, 64], f32>) -> (!sym.t<[s85, 4, s0, 32], f32, strides=[256*s0, 64*s0, 64, 1]>, !sym.t<[s85, 4, s0, 32], f32, strides=[256*s0, 64*s0, 64, 1]>)
    %mul = aten.mul.Tensor(%q, %cos) : (!sym.t<[s85, 4, s0, 64], f32>, !sym.t<[s0, 64], f32>) -> !sym.t<[s85, 4, s0, 64], f32>
    %neg = aten.neg(%split_1) : (!sym.t<[s85, 4, s0, 32], f32, strides=[256*s0, 64*s0, 64, 1]>) -> !sym.t<[s85, 4, s0, 32], f32>
    %cat = aten.cat([%neg, %split], -1) : (!sym.t<[s85, 4, s0, 32], f32>, !sym.t<[s85, 4, s0, 32], f32, strides=[256*s0, 64*s0, 64, 1]>) -> !sym.t<[s85, 4, s0, 64], f32>
    %mul_1 = aten.mul.Tensor(%cat, %sin) : (!sym.t<[s85, 4, s0, 64], f32>, !sym.t<[s0, 64], f32>) -> !sym.t<[s85, 4, s0, 64], f32>
    %add = aten.add.Tensor(%mul, %mul_1) : (!sym.t<[s85, 4, s0, 64], f32>, !sym.t<[s85, 4, s0, 64], f32>) -> !sym.t<[s85, 4, s0, 64], f32>
    func.return %add : !sym.t<[s85, 4, s0, 64], f32>
  }
}
