builtin.module attributes {lamella.hints = {s27 = 8 : i64, s77 = 2 : i64}} {
  func.func @main(%x: !sym.t<[s77, s27, 512], bf16>, %w: !sym.t<[512], bf16>) -> !sym.t<[s77, s27, 512], bf16> {
    aten._assert_tensor_metadata(%x, dtype = bf16, device = "cpu", layout = strided) : (!sym.t<[s77, s27, 512], bf16>) -> ()
    %_to_copy = aten._to_copy(%x, dtype = f32) : (!sym.t<[s77, s27, 512], bf16>) -> !sym.t<[s77, s27, 512], f32>
    %pow = aten.pow.Tensor_Scalar(%_to_copy, 2) : (!sym.t<[s77, s27, 512], f32>) -> !sym.t<[s77, s27, 512], f32>
    %mean = aten.mean.dim(%pow, [-1], true) : (!sym.t<[s77, s27, 512], f32>) -> !sym.t<[s77, s27, 1], f32>
    %add = aten.add.Tensor(%mean, 1e-06) : (!sym.t<[s77, s27, 1], f32>) -> !sym.t<[s77, s27, 1], f32>
    %rsqrt = aten.rsqrt(%add) : (!sym.t<[s77, s27, 1], f32>) -> !sym.t<[s77, s27, 1], f32>
    %mul = aten.mul.Tensor(%_to_copy, %rsqrt) : (!sym.t<[s77, s27, 512], f32>, !sym.t<[s77, s27, 1], f32>) -> !sym.t<[s77, s27, 512], f32>
    aten._assert_tensor_metadata(%mul, dtype = f32, device = "cpu", layout = strided) : (!sym.t<[s77, s27, 512], f32>) -> ()
    %_to_copy_1 = aten._to_copy(%mul, dtype = bf16) : (!sym.t<[s77, s27, 512], f32>) -> !sym.t<[s77, s27, 512], bf16>
    %mul_1 = aten.mul.Tensor(%_to_copy_1, %w) : (!sym.t<[s77, s27, 512], bf16>, !sym.t<[512], bf16>) -> !sym.t<[s77, s27, 512], bf16>
    func.return %mul_1 : !sym.t<[s77, s27, 512], bf16>
  }
}
