builtin.module attributes {lamella.hints = {s13 = 8 : i64}} {
  func.func @main(%x: !sym.t<[s13, 1000], f32>, %t: !sym.t<[s13], i64>) -> !sym.t<[], f32> {
    %_log_softmax = aten._log_softmax(%x, -1, false) : (!sym.t<[s13, 1000], f32>) -> !sym.t<[s13, 1000], f32>
    %slice = aten.slice.Tensor(%t, start = 0, end = 9223372036854775807) : (!sym.t<[s13], i64>) -> !sym.t<[s13], i64>
    %unsqueeze = aten.unsqueeze(%slice, 1) : (!sym.t<[s13], i64>) -> !sym.t<[s13, 1], i64>
    %gather = aten.gather(%_log_softmax, 1, %unsqueeze) : (!sym.t<[s13, 1000], f32>, !sym.t<[s13, 1], i64>) -> !sym.t<[s13, 1], f32>
    %mean = aten.mean(%gather) : (!sym.t<[s13, 1], f32>) -> !sym.t<[], f32>
    %neg = aten.neg(%mean) : (!sym.t<[], f32>) -> !sym.t<[], f32>
    func.return %neg : !sym.t<[], f32>
  }
}
