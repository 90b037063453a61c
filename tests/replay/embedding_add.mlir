builtin.module attributes {lamella.hints = {s48 = 8 : i64, s58 = 2 : i64}} {
  func.func @main(%i: !sym.t<[s58, s48], i64>, %w: !sym.t<[100, 64], f32>, %p: !sym.t<[s48, 64], f32>) -> !sym.t<[s58, s48, 64], f32> {
    %embedding = aten.embedding(%w, %i) : (!sym.t<[100, 64], f32>, !sym.t<[s58, s48], i64>) -> !sym.t<[s58, s48, 64], f32>
    %add = aten.add.Tensor(%embedding, %p) : (!sym.t<[s58, s48, 64], f32>, !sym.t<[s48, 64], f32>) -> !sym.t<[s58, s48, 64], f32>
    func.return %add : !sym.t<[s58, s48, 64], f32>
  }
}
