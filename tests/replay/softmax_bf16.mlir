builtin.module attributes {lamella.hints = {s77 = 4 : i64}} {
  func.func @main(%x: !sym.t<[s77, 1024], bf16>) -> !sym.t<[s77, 1024], bf16> {
    %_softmax = aten._softmax(%x, -1, false) : (!sym.t<[s77, 1024], bf16>) -> !sym.t<[s77, 1024], bf16>
    func.return %_softmax : !sym.t<[s77, 1024], bf16>
  }
}
