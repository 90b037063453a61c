builtin.module attributes {lamella.hints = {s77 = 4 : i64}} {
  func.func @main(%x: !sym.t<[s77, 2048], f32>) -> !sym.t<[s77, 1024], f32> {
    %split, %split_1 = aten.split.Tensor(%x, 1024, -1) : (!sym.t<[s77, 2048], f32>) -> (!sym.t<[s77, 1024], f32, strides=[2048, 1]>, !sym.t<[s77, 1024], f32, strides=[2048, 1]>)
    %silu = aten.silu(%split) : (!sym.t<[s77, 1024], f32, strides=[2048, 1]>) -> !sym.t<[s77, 1024], f32>
    %split_2, %split_3 = aten.split.Tensor(%x, 1024, -1) : (!sym.t<[s77, 2048], f32>) -> (!sym.t<[s77, 1024], f32, strides=[2048, 1]>, !sym.t<[s77, 1024], f32, strides=[2048, 1]>)
    %mul = aten.mul.Tensor(%silu, %split_3) : (!sym.t<[s77, 1024], f32>, !sym.t<[s77, 1024], f32, strides=[2048, 1]>) -> !sym.t<[s77, 1024], f32>
    func.return %mul : !sym.t<[s77, 1024], f32>
  }
}
