// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s

// What reads %x before it is overwritten runs before; what reads it after, after: they are not fused, and the cheap
// value %0 is stored for its reader behind the copy_.

// CHECK:      func.func @main
// CHECK:        [[OLD:%.*]] = loop.launch @{{.*}}(%x)
// CHECK:        aten.copy_(%x, %y)
// CHECK:        loop.launch @{{.*}}([[OLD]], %x)
func.func @main(%x: !sym.t<[16], f32>, %y: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %0 = loop.nest [d0 = 16] {
    %a = loop.load %x[d0] : !sym.t<[16], f32>
    %b = arith.negf %a : f32
    loop.yield %b : f32
  } : !sym.t<[16], f32>
  %c = aten.copy_(%x, %y) : (!sym.t<[16], f32>, !sym.t<[16], f32>) -> !sym.t<[16], f32>
  %1 = loop.nest [d0 = 16] {
    %a = loop.load %0[d0] : !sym.t<[16], f32>
    %b = loop.load %x[d0] : !sym.t<[16], f32>
    %d = arith.addf %a, %b : f32
    loop.yield %d : f32
  } : !sym.t<[16], f32>
  func.return %1 : !sym.t<[16], f32>
}

// -----

// A view of the argument is the argument.

// CHECK:      func.func @main
// CHECK:        %v = loop.view %x
// CHECK:        [[OLD:%.*]] = loop.launch @{{.*}}(%v)
// CHECK:        aten.copy_(%x, %y)
// CHECK:        func.return [[OLD]]
func.func @main(%x: !sym.t<[16], f32>, %y: !sym.t<[16], f32>) -> !sym.t<[8], f32> {
  %v = loop.view %x offset [8] : !sym.t<[16], f32> -> !sym.t<[8], f32>
  %0 = loop.nest [d0 = 8] {
    %a = loop.load %v[d0] : !sym.t<[8], f32>
    %b = arith.negf %a : f32
    loop.yield %b : f32
  } : !sym.t<[8], f32>
  %c = aten.copy_(%x, %y) : (!sym.t<[16], f32>, !sym.t<[16], f32>) -> !sym.t<[16], f32>
  func.return %0 : !sym.t<[8], f32>
}

// -----

// No cycle: %2 needs the matrix product of %0, so the two stay apart although both read %x.

// CHECK:      func.func @main
// CHECK:        [[A:%.*]] = loop.launch @{{.*}}(%x)
// CHECK:        [[B:%.*]] = aten.mm([[A]], %x)
// CHECK:        loop.launch @{{.*}}(%x, [[B]])
func.func @main(%x: !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32> {
  %0 = loop.nest [d0 = 64, d1 = 64] {
    %a = loop.load %x[d0, d1] : !sym.t<[64, 64], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[64, 64], f32>
  %1 = aten.mm(%0, %x) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %2 = loop.nest [d0 = 64, d1 = 64] {
    %a = loop.load %x[d0, d1] : !sym.t<[64, 64], f32>
    %b = loop.load %1[d0, d1] : !sym.t<[64, 64], f32>
    %c = arith.addf %a, %b : f32
    loop.yield %c : f32
  } : !sym.t<[64, 64], f32>
  func.return %2 : !sym.t<[64, 64], f32>
}

// -----

// Equal layers are one kernel, whatever their symbols are called.

// CHECK:      loop.kernel @exp_0(
// CHECK-SAME:   sizes [s0] grid [d0 = s0]
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
// CHECK:      loop.launch @exp_0(%x) sizes [s5]
// CHECK:      loop.launch @exp_0(%y) sizes [s7]
func.func @main(%x: !sym.t<[s5], f32>, %y: !sym.t<[s7], f32>) -> (!sym.t<[s5], f32>, !sym.t<[s7], f32>) {
  %0 = loop.nest [d0 = s5] {
    %a = loop.load %x[d0] : !sym.t<[s5], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[s5], f32>
  %1 = loop.nest [d0 = s7] {
    %a = loop.load %y[d0] : !sym.t<[s7], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[s7], f32>
  func.return %0, %1 : !sym.t<[s5], f32>, !sym.t<[s7], f32>
}

// -----

// What nothing uses is gone, except that its index must still be checked.

// CHECK:      loop.kernel @{{.*}}_0(%x0: !sym.t<[4], i64>) outs() sizes [] grid [d0 = 4]
// CHECK:        loop.assert
// CHECK-NOT:  loop.kernel
// CHECK:      func.func
func.func @main(%i: !sym.t<[4], i64>) {
  %0 = loop.nest [d0 = 4] {
    %a = loop.load %i[d0] : !sym.t<[4], i64>
    %n = arith.constant 7 : i64
    %ok = arith.cmpi ult, %a, %n : i64
    loop.assert %ok, "index out of range"
    loop.yield %a : i64
  } : !sym.t<[4], i64>
  %1 = loop.nest [d0 = 4] {
    %a = loop.load %i[d0] : !sym.t<[4], i64>
    loop.yield %a : i64
  } : !sym.t<[4], i64>
  func.return
}

// -----

// A number of data is read before the kernel that has absorbed what is made of it.

// CHECK:      func.func @main
// CHECK:        aten._local_scalar_dense
// CHECK-NEXT:   loop.launch @{{.*}} sizes [u0]
func.func @main(%x: !sym.t<[2], i64>, %n: !sym.t<[], i64>) -> !sym.t<[2], i64> {
  %u = aten._local_scalar_dense(%n) : (!sym.t<[], i64>) -> !sym.int<u0>
  %0 = loop.nest [d0 = 2] {
    %a = loop.index [u0 + 1]
    loop.yield %a : i64
  } : !sym.t<[2], i64>
  %1 = loop.nest [d0 = 2] {
    %a = loop.load %x[d0] : !sym.t<[2], i64>
    %b = loop.load %0[d0] : !sym.t<[2], i64>
    %c = arith.addi %a, %b : i64
    loop.yield %c : i64
  } : !sym.t<[2], i64>
  func.return %1 : !sym.t<[2], i64>
}
