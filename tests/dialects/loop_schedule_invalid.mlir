// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What no schedule says is an error of the op that says it.

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'lanes' must be a power of two up to 256, not 2147483648 : i64}}
  loop.for [d1 = 64] attributes {vector = "d1", lanes = 2147483648 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'unroll' must be an integer from 1 to 1024, or no value}}
  loop.for [d1 = 64] attributes {vector = "d1", lanes = 16 : i64, unroll = 2147483648 : i64} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'vector' must be the name of one of its dims}}
  loop.for [d1 = 64] attributes {vector = "d2", lanes = 16 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'lanes' must be a power of two up to 256}}
  loop.for [d1 = 64] attributes {vector = "d1", lanes = 16.0 : f32, unroll = 1 : i64} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'tile' must be powers of two for its dims, together up to 1048576}}
  loop.for [d1 = 64] attributes {tile = {d1 = 0 : i64}} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'tile' must be powers of two}}
  loop.for [d1 = 64] attributes {tile = {d1 = 48 : i64}} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'tile' must be powers of two for its dims}}
  loop.for [d1 = 64] attributes {tile = {d2 = 64 : i64}} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'tile' must be powers of two for its dims, together up to 1048576}}
  loop.for [d1 = 64] attributes {tile = {d1 = 2097152 : i64}} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'transpose' must be a power of two}}
  loop.for [d1 = 64] attributes {transpose = 0 : i64} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  loop.for [d1 = 64] {
    // expected-error@+1 {{attribute 'prefetch' must be an integer, or one expression}}
    %0 = loop.load %x[d1] attributes {prefetch = "far"} : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  loop.for [d1 = 64] {
    // expected-error@+1 {{attribute 'level' must be an integer from 1 to 3}}
    %0 = loop.load %x[d1] attributes {prefetch = 64 : i64, level = 4 : i64} : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'warps' must be a power of two up to 32}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {warps = 3 : i64} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{together up to 1048576}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [d0 = 2048, b0 = 2048] attributes {tile = {d0 = 1024 : i64, b0 = 2048 : i64}} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'stages' must be an integer from 1 to 16}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {stages = -1 : i64} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'group' must be an integer from 1 to}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {group = 0 : i64} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'registers' must be an integer from 1 to 255}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {registers = 0 : i64} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'sides' must be an integer from 1 to 8}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {sides = 0 : i64} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'grain' must be an integer, or one expression}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {grain = "many"} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'multiple' must be a positive integer for each size}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {multiple = {s0 = 0 : i64}} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{attribute 'held' must be a positive integer for each size}}
loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] attributes {held = 16 : i64} {
  loop.for [d1 = 64] {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}

// -----

// expected-error@+1 {{the sizes of a kernel are names, not [4]}}
loop.kernel @k(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [4] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  loop.store %0, %y[d0] : !sym.t<[4], f32>
  loop.end
}

// -----

loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [] {
  // expected-error@+1 {{attribute 'split' must be the names of the dims along which vectors of two factors lie}}
  loop.for [d1 = 64] attributes {matrix, split = ["d1"]} {
    %0 = loop.load %x[d1] : !sym.t<[64], f32>
    loop.store %0, %y[d1] : !sym.t<[64], f32>
    loop.yield
  }
  loop.end
}
