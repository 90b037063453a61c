builtin.module {
  func.func @main(%x: !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>, %m: !sym.t<[16], f32>, %v: !sym.t<[16], f32>, %w: !sym.t<[16], f32>, %b: !sym.t<[16], f32>) -> !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]> {
    %_native_batch_norm_legit_no_training, %_native_batch_norm_legit_no_training_1, %_native_batch_norm_legit_no_training_2 = aten._native_batch_norm_legit_no_training(%x, %w, %b, %m, %v, 0.1, 1e-05) : (!sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>, !sym.t<[16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>) -> (!sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>, !sym.t<[0], f32>, !sym.t<[0], f32>)
    %relu = aten.relu(%_native_batch_norm_legit_no_training) : (!sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>) -> !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>
    func.return %relu : !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>
  }
}
