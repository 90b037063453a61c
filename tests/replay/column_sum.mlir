builtin.module {
  func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32> {
    %sum = aten.sum.dim_IntList(%x, [0]) : (!sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32>
    func.return %sum : !sym.t<[1024], f32>
  }
}
