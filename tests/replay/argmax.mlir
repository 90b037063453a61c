builtin.module attributes {lamella.hints = {s77 = 8 : i64}} {
  func.func @main(%x: !sym.t<[s77, 1000], f32>) -> !sym.t<[s77], i64> {
    %argmax = aten.argmax(%x, -1) : (!sym.t<[s77, 1000], f32>) -> !sym.t<[s77], i64>
    func.return %argmax : !sym.t<[s77], i64>
  }
}
