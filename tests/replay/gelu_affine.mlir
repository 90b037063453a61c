builtin.module attributes {lamella.hints = {s77 = 4 : i64}} {
  func.func @main(%x: !sym.t<[s77, 256], f32>, %a: !sym.t<[256], f32>, %b: !sym.t<[256], f32>) -> !sym.t<[s77, 256], f32> {
    %mul = aten.mul.Tensor(%x, %a) : (!sym.t<[s77, 256], f32>, !sym.t<[256], f32>) -> !sym.t<[s77, 256], f32>
    %add = aten.add.Tensor(%mul, %b) : (!sym.t<[s77, 256], f32>, !sym.t<[256], f32>) -> !sym.t<[s77, 256], f32>
    %gelu = aten.gelu(%add) : (!sym.t<[s77, 256], f32>) -> !sym.t<[s77, 256], f32>
    func.return %gelu : !sym.t<[s77, 256], f32>
  }
}
