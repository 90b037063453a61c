builtin.module attributes {lamella.hints = {s17 = 2 : i64, s27 = 8 : i64}} {
  func.func @main(%x: !sym.t<[s17, s27, 768], f32>, %y: !sym.t<[s17, s27, 768], f32>, %w: !sym.t<[768], f32>, %b: !sym.t<[768], f32>) -> !sym.t<[s17, s27, 768], f32> {
    %add = aten.add.Tensor(%x, %y) : (!sym.t<[s17, s27, 768], f32>, !sym.t<[s17, s27, 768], f32>) -> !sym.t<[s17, s27, 768], f32>
    %native_layer_norm, %native_layer_norm_1, %native_layer_norm_2 = aten.native_layer_norm(%add, [768], %w, %b, 1e-05) : (!sym.t<[s17, s27, 768], f32>, !sym.t<[768], f32>, !sym.t<[768], f32>) -> (!sym.t<[s17, s27, 768], f32>, !sym.t<[s17, s27, 1], f32>, !sym.t<[s17, s27, 1], f32>)
    func.return %native_layer_norm : !sym.t<[s17, s27, 768], f32>
  }
}
