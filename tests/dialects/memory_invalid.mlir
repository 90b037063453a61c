// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: a host program reads what was written for it, and nothing that is gone.

// Two buffers at the same bytes, both needed.
loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
loop.kernel @add(%x0: !sym.t<[16], f32>, %x1: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%x: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %a = host.arena [128]
  %s = host.slot %a [0] : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %t = host.slot %a [0] : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%t) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %y = host.empty : !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op reads %s, but bytes 0 to 64 of %a hold %t now}}
  host.launch @add(%s, %t) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return %y : !sym.t<[16], f32>
}

// -----

// A part of it is enough, and a view of it is read.
loop.kernel @exp(%x0: !sym.t<[32], f32>) outs(%y0: !sym.t<[32], f32>) sizes [] grid [d0 = 32] { loop.end }
loop.kernel @half(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%x: !sym.t<[32], f32>) -> !sym.t<[16], f32> {
  %a = host.arena [192]
  %s = host.slot %a [0] : !sym.t<[32], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[32], f32>, !sym.t<[32], f32>
  %t = host.slot %a [64] : !sym.t<[32], f32>
  host.launch @exp(%x) outs(%t) sizes [] : !sym.t<[32], f32>, !sym.t<[32], f32>
  %y = host.empty : !sym.t<[16], f32>
  %low = host.view %s [0] : !sym.t<[32], f32> -> !sym.t<[16], f32>
  host.launch @half(%low) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %high = host.view %s [8] : !sym.t<[32], f32> -> !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op reads %high, but bytes 64 to 96 of %a hold %t now}}
  host.launch @half(%high) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return %y : !sym.t<[16], f32>
}

// -----

// A buffer lies in a result that is written before the buffer is read.
loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%x: !sym.t<[16], f32>) -> (!sym.t<[16], f32>, !sym.t<[16], f32>) {
  %y = host.empty : !sym.t<[16], f32>
  %a = host.lend %y : !sym.t<[16], f32>
  %s = host.slot %a [0] : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  host.launch @exp(%x) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %z = host.empty : !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op reads %s, but bytes 0 to 64 of %y hold %y now}}
  host.launch @exp(%s) outs(%z) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return %y, %z : !sym.t<[16], f32>, !sym.t<[16], f32>
}

// -----

// … or is written after the result.
loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%x: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %y = host.empty : !sym.t<[16], f32>
  %a = host.lend %y : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %s = host.slot %a [0] : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  // expected-error@+1 {{'host.return' op reads %y, but bytes 0 to 64 of %y hold %s now}}
  host.return %y : !sym.t<[16], f32>
}

// -----

// A call writes over a buffer.
loop.kernel @exp(%x0: !sym.t<[4, 4], f32>) outs(%y0: !sym.t<[4, 4], f32>) sizes [] grid [d0 = 4, d1 = 4] { loop.end }
host.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  %a = host.arena [128]
  %s = host.slot %a [0] : !sym.t<[4, 4], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
  %t = host.slot %a [0] : !sym.t<[4, 4], f32>
  %0 = aten.mm.out(%x, %x, out = %t) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  // expected-error@+1 {{'aten.mm' op reads %s, but bytes 0 to 64 of %a hold %t now}}
  %y = aten.mm(%x, %s) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  host.return %y : !sym.t<[4, 4], f32>
}

// -----

// What a call makes of a buffer is a part of it.
loop.kernel @exp(%x0: !sym.t<[4, 4], f32>) outs(%y0: !sym.t<[4, 4], f32>) sizes [] grid [d0 = 4, d1 = 4] { loop.end }
host.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  %a = host.arena [128]
  %s = host.slot %a [0] : !sym.t<[4, 4], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
  %v = aten.t(%s) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]>
  %t = host.slot %a [0] : !sym.t<[4, 4], f32>
  host.launch @exp(%x) outs(%t) sizes [] : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
  // expected-error@+1 {{'aten.mm' op reads %v, but bytes 0 to 64 of %a hold %t now}}
  %y = aten.mm(%x, %v) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32, strides=[1, 4]>) -> !sym.t<[4, 4], f32>
  host.return %y : !sym.t<[4, 4], f32>
}

// -----

// Nothing has written it.
host.func @main(%x: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %y = host.empty : !sym.t<[16], f32>
  // expected-error@+1 {{'host.return' op reads %y, of which nothing has written byte 0 of %y}}
  host.return %y : !sym.t<[16], f32>
}

// -----

// A kernel writes over a part of what it reads.
loop.kernel @exp(%x0: !sym.t<[32], f32>) outs(%y0: !sym.t<[32], f32>) sizes [] grid [d0 = 32] { loop.end }
host.func @main(%x: !sym.t<[32], f32>) -> () {
  %a = host.arena [192]
  %s = host.slot %a [0] : !sym.t<[32], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[32], f32>, !sym.t<[32], f32>
  %t = host.slot %a [64] : !sym.t<[32], f32>
  // expected-error@+1 {{'host.launch' op reads %s while it writes %t over a part of it}}
  host.launch @exp(%s) outs(%t) sizes [] : !sym.t<[32], f32>, !sym.t<[32], f32>
  host.return
}

// -----

loop.kernel @two(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>, %y1: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%x: !sym.t<[16], f32>) -> () {
  %a = host.arena [64]
  %s = host.slot %a [0] : !sym.t<[16], f32>
  %t = host.slot %a [0] : !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op writes %t and %s to the same bytes}}
  host.launch @two(%x) outs(%s, %t) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return
}

// -----

loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%x: !sym.t<[16], f32>) -> () {
  %v = host.view %x [0] : !sym.t<[16], f32> -> !sym.t<[16], f32>
  host.drop %x : !sym.t<[16], f32>
  %y = host.empty : !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op uses %v, which is part of %x, after host.drop}}
  host.launch @exp(%v) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return
}

// -----

// A tensor that a call made of a buffer ends with the arena; one made of a tensor holds its memory.
loop.kernel @exp(%x0: !sym.t<[4, 4], f32>) outs(%y0: !sym.t<[4, 4], f32>) sizes [] grid [d0 = 4, d1 = 4] { loop.end }
host.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]> {
  %u = aten.t(%x) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]>
  %a = host.arena [64]
  %s = host.slot %a [0] : !sym.t<[4, 4], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
  host.drop %x : !sym.t<[4, 4], f32>
  %w = aten.mm(%u, %u) : (!sym.t<[4, 4], f32, strides=[1, 4]>, !sym.t<[4, 4], f32, strides=[1, 4]>) -> !sym.t<[4, 4], f32>
  %v = aten.t(%s) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]>
  host.drop %a : !host.arena
  // expected-error@+1 {{'host.return' op uses %v, which is part of %a, after host.drop}}
  host.return %v : !sym.t<[4, 4], f32, strides=[1, 4]>
}

// -----

// Blocks of symbolic sizes: the second begins before the first ends.
loop.kernel @exp(%x0: !sym.t<[s0], f32>) outs(%y0: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] { loop.end }
loop.kernel @add(%x0: !sym.t<[s0], f32>, %x1: !sym.t<[s0], f32>) outs(%y0: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] { loop.end }
host.func @main(%x: !sym.t<[16*s0], f32>, %n: !sym.int<s0>) -> !sym.t<[16*s0], f32> {
  %a = host.arena [128*s0]
  %s = host.slot %a [0] : !sym.t<[16*s0], f32>
  host.launch @exp(%x) outs(%s) sizes [16*s0] : !sym.t<[16*s0], f32>, !sym.t<[16*s0], f32>
  %t = host.slot %a [64] : !sym.t<[16*s0], f32>
  host.launch @exp(%x) outs(%t) sizes [16*s0] : !sym.t<[16*s0], f32>, !sym.t<[16*s0], f32>
  %y = host.empty : !sym.t<[16*s0], f32>
  // expected-error@+1 {{'host.launch' op reads %s, but bytes 64 to 4096 of %a hold %t now (s0 = 64)}}
  host.launch @add(%s, %t) outs(%y) sizes [16*s0] : !sym.t<[16*s0], f32>, !sym.t<[16*s0], f32>, !sym.t<[16*s0], f32>
  host.return %y : !sym.t<[16*s0], f32>
}

// -----

// A region is a program of its own: it has an arena, and what it is given.
loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%p: !sym.t<[], i1>, %x: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %y = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[16], f32>) -> !sym.t<[16], f32>
  then (%b: !sym.t<[16], f32>) {
    flow.yield(%b) : !sym.t<[16], f32>
  } else (%b: !sym.t<[16], f32>) {
    %c = host.empty : !sym.t<[16], f32>
    // expected-error@+1 {{'flow.yield' op reads %c, of which nothing has written byte 0 of %c}}
    flow.yield(%c) : !sym.t<[16], f32>
  }
  host.return %y : !sym.t<[16], f32>
}

// -----

// What control flow gives back may be the buffer that it was given.
loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @main(%p: !sym.t<[], i1>, %x: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %a = host.arena [64]
  %s = host.slot %a [0] : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%s) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %v = flow.if(%p, %s) : (!sym.t<[], i1>, !sym.t<[16], f32>) -> !sym.t<[16], f32>
  then (%b: !sym.t<[16], f32>) {
    flow.yield(%b) : !sym.t<[16], f32>
  } else (%b: !sym.t<[16], f32>) {
    %c = host.empty : !sym.t<[16], f32>
    host.launch @exp(%b) outs(%c) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
    flow.yield(%c) : !sym.t<[16], f32>
  }
  %t = host.slot %a [0] : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%t) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %y = host.empty : !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op reads %v, but bytes 0 to 64 of %a hold %t now}}
  host.launch @exp(%v) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return %y : !sym.t<[16], f32>
}

// -----

// A tensor may lie over an argument.
loop.kernel @exp(%x0: !sym.t<[16], f32>) outs(%y0: !sym.t<[16], f32>) sizes [] grid [d0 = 16] { loop.end }
host.func @over(%x: !sym.t<[16], f32>) -> (!sym.t<[16], f32>, !sym.t<[16], f32>) {
  %y = host.empty over(%x : !sym.t<[16], f32>) : !sym.t<[16], f32>
  host.launch @exp(%x) outs(%y) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  %z = host.empty : !sym.t<[16], f32>
  // expected-error@+1 {{'host.launch' op reads %x, but bytes 0 to 64 of %x hold %y now}}
  host.launch @exp(%x) outs(%z) sizes [] : !sym.t<[16], f32>, !sym.t<[16], f32>
  host.return %y, %z : !sym.t<[16], f32>, !sym.t<[16], f32>
}
