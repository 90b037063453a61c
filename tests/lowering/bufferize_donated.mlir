// RUN: lamella-opt %s -p 'aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse,bufferize' | filecheck %s

// A backward writes over what its forward has kept for it alone: first once, then over what was written there. What is
// returned has memory of its own.
// CHECK-LABEL: host.func @main(
// CHECK: host.launch @exp_0(%x) outs(%x)
// CHECK: aten.mm.out(%x, %x,
// CHECK: host.launch @mul_1(%x, %b) outs(%x)
// CHECK: %d = host.empty
// CHECK: [[Z:%\w+]] = host.empty
// CHECK: host.launch @cos_2(%y) outs([[Z]])
// CHECK: host.return {{.*}}, [[Z]]
func.func @main(%x: !sym.t<[640, 640], f32> {lamella.donated}, %y: !sym.t<[640, 640], f32> {lamella.donated}) -> (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) {
  %a = aten.exp(%x) : (!sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %b = aten.mm(%a, %a) : (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %c = aten.mul.Tensor(%a, %b) : (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %d = aten.mm(%c, %b) : (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %z = aten.cos(%y) : (!sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  func.return %b, %d, %z : !sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>
}

// Nobody has said so.
// CHECK-LABEL: host.func @kept(
// CHECK-NOT: outs(%x)
// CHECK: host.return
func.func @kept(%x: !sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32> {
  %a = aten.exp(%x) : (!sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %b = aten.mm(%a, %a) : (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  func.return %b : !sym.t<[640, 640], f32>
}

// What may be there for the call alone is written over where it is, as is seen when the program runs; once, and what is
// read later is not.
// CHECK-LABEL: host.func @passed(
// CHECK: [[A:%\w+]] = host.empty over(%g : !sym.t<[640, 640], f32>) {{.*}}: !sym.t<[640, 640], f32>
// CHECK: host.launch @exp_0(%g) outs([[A]])
// CHECK-NOT: host.empty over
// CHECK: host.return
func.func @passed(%g: !sym.t<[640, 640], f32> {lamella.passed}, %h: !sym.t<[640, 640], f32> {lamella.passed}) -> (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) {
  %a = aten.exp(%g) : (!sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %b = aten.cos(%h) : (!sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  %c = aten.mm(%h, %a) : (!sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>) -> !sym.t<[640, 640], f32>
  func.return %a, %b, %c : !sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>, !sym.t<[640, 640], f32>
}
