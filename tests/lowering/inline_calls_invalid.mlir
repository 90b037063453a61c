// RUN: lamella-opt %s -p inline-calls --verify-diagnostics

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %0 = flow.call(%x) callee @f : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %0 : !sym.t<[4], f32>
}
func.func private @f(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{@f calls itself}}
  %0 = flow.call(%x) callee @f : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %0 : !sym.t<[4], f32>
}
