builtin.module {
  func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[], f32> {
    %sum = aten.sum(%x) : (!sym.t<[4096, 1024], f32>) -> !sym.t<[], f32>
    func.return %sum : !sym.t<[], f32>
  }
}
