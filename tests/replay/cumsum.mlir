builtin.module attributes {lamella.hints = {s77 = 8 : i64}} {
  func.func @main(%x: !sym.t<[s77, 100], f32>) -> !sym.t<[s77, 100], f32> {
    %cumsum = aten.cumsum(%x, -1) : (!sym.t<[s77, 100], f32>) -> !sym.t<[s77, 100], f32>
    func.return %cumsum : !sym.t<[s77, 100], f32>
  }
}
