// RUN: lamella-opt %s -p aten-patterns --verify-diagnostics
// A pattern is found by what computes its results.

builtin.module {
  func.func @pattern.none.search(%a: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
    // expected-error@+1 {{gives back what a pattern computes, not its arguments}}
    func.return %a : !sym.t<[s0], f32>
  }
  func.func @pattern.none.replace(%a: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
    func.return %a : !sym.t<[s0], f32>
  }
  func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
    %0 = aten.exp(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
    func.return %0 : !sym.t<[4], f32>
  }
}
