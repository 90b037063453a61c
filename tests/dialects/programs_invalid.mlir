// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: the messages for programs whose ops are right each by itself.

// expected-error@+1 {{'func.func' op uses the size s0, which nothing above gives}}
func.func @main(%x: !sym.t<[2*s0], f32>) -> !sym.t<[2*s0], f32> {
  func.return %x : !sym.t<[2*s0], f32>
}

// -----

func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s1], f32> {
  // expected-error@+1 {{'aten.expand' op uses the size s1, which nothing above gives}}
  %y = aten.expand(%x, [s1]) : (!sym.t<[s0], f32>) -> !sym.t<[s1], f32>
  func.return %y : !sym.t<[s1], f32>
}

// -----

func.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0], f32> {
  // expected-error@+1 {{torch refuses this call: Dimension out of range}}
  %y = aten.sum.dim_IntList(%x, [2]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0], f32>
  func.return %y : !sym.t<[s0], f32>
}

// -----

func.func @main(%x: !sym.t<[1, 1, 4, 4], i1>) -> !sym.t<[1, 1, 2, 2], i1> {
  // expected-error@+1 {{torch refuses this call: not implemented for self of torch.bool}}
  %r = aten.avg_pool2d(%x, [2, 2], [2, 2]) : (!sym.t<[1, 1, 4, 4], i1>) -> !sym.t<[1, 1, 2, 2], i1>
  func.return %r : !sym.t<[1, 1, 2, 2], i1>
}

// -----

func.func @main(%x: !sym.t<[4], f32>, %i: !sym.t<[2], c64>, %s: !sym.t<[2], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{torch refuses this call: expected self and source of one dtype, and an index of int32 or int64}}
  %r = aten.index_add(%x, 0, %i, %s) : (!sym.t<[4], f32>, !sym.t<[2], c64>, !sym.t<[2], f32>) -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// -----

func.func @main(%x: !sym.t<[s0, 16], bf16>) -> !sym.t<[s0, 16], f32> {
  // expected-error@+1 {{result #0 has type !sym.t<[s0, 16], f32>, but torch makes sizes}}
  %y = aten.exp(%x) : (!sym.t<[s0, 16], bf16>) -> !sym.t<[s0, 16], f32>
  func.return %y : !sym.t<[s0, 16], f32>
}

// -----

// a size that may have any sign
func.func @main(%x: !sym.t<[n0, 8], i64>, %n: !sym.int<n0>) -> !sym.t<[n0, 8], i64> {
  // expected-error@+1 {{result #0 has type !sym.t<[n0, 8], i64>, but torch makes sizes [5040, 8] and dtype float32}}
  %y = aten.tanh(%x) : (!sym.t<[n0, 8], i64>) -> !sym.t<[n0, 8], i64>
  func.return %y : !sym.t<[n0, 8], i64>
}

// -----

func.func @main(%q: !sym.t<[2, 4, 1, 16], f32>, %k: !sym.t<[2, 4, 16], f32>) -> !sym.t<[2, 4, 1, 16], f32> {
  // expected-error@+1 {{torch refuses this call: expected key to have 4 dims, got 3}}
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 16], f32>, !sym.t<[2, 4, 16], f32>) -> (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 1], f32>)
  func.return %y : !sym.t<[2, 4, 1, 16], f32>
}

// -----

func.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  // expected-error@+1 {{the extent d1 = d0 of loop.nest uses d0, which is no size and no dim in scope}}
  %y = loop.nest [d0 = 4, d1 = d0] {
    %0 = loop.load %x[d0, d1] : !sym.t<[4, 4], f32>
    loop.yield %0 : f32
  } : !sym.t<[4, 4], f32>
  func.return %y : !sym.t<[4, 4], f32>
}

// -----

func.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  // expected-error@+1 {{loop.load: symbol v1 is no dim in scope, no size and no index operand}}
  %y = loop.nest [d0 = 4, d1 = 4] {
    %i = loop.index [d0]
    %0 = loop.load %x[v0, v1](%i) : !sym.t<[4, 4], f32>
    loop.yield %0 : f32
  } : !sym.t<[4, 4], f32>
  func.return %y : !sym.t<[4, 4], f32>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f64> {
  // expected-error@+1 {{result #0 of loop.nest holds f64, its body gives f32}}
  %y = loop.nest [d0 = 4] {
    %0 = loop.load %x[d0] : !sym.t<[4], f32>
    loop.yield %0 : f32
  } : !sym.t<[4], f64>
  func.return %y : !sym.t<[4], f64>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{a dim cannot be called s0: that is a size or an index operand}}
  %y = loop.nest [s0 = 4] {
    %0 = loop.load %x[s0] : !sym.t<[4], f32>
    loop.yield %0 : f32
  } : !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{launches @exp, which is not here; the kernels are none}}
  %y = loop.launch @exp(%x) sizes [] : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

loop.kernel @copy(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{passes !sym.t<[4], f32> where @copy takes !sym.t<[s0], f32> with sizes [5]}}
  %y = loop.launch @copy(%x) sizes [5] : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

loop.kernel @copy(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %y = host.empty : !sym.t<[4], f32>
  // expected-error@+1 {{has 2 inputs, @copy takes 1}}
  host.launch @copy(%x, %x) outs(%y) sizes [4] : !sym.t<[4], f32>, !sym.t<[4], f32>, !sym.t<[4], f32>
  host.return %y : !sym.t<[4], f32>
}

// -----

host.func @main(%x: !sym.t<[32], f32>) -> !sym.t<[32], f32> {
  %a = host.arena [128]
  // expected-error@+1 {{ends 64 bytes after the arena of [128] bytes}}
  %t = host.slot %a [64] : !sym.t<[32], f32>
  host.return %t : !sym.t<[32], f32>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  func.return %x : !sym.t<[4], f32>
}
// expected-error@+1 {{defines @main a second time}}
func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  func.return %x : !sym.t<[4], f32>
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) {
  %a = host.empty : !sym.t<[4], f32>
  %b = host.empty : !sym.t<[4], f32>
  host.together {
    host.launch @neg(%x) outs(%a) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
    // expected-error@+1 {{'host.launch' op reads memory that @neg writes in the same host.together}}
    host.launch @neg(%a) outs(%b) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) {
  %a = host.empty : !sym.t<[4], f32>
  host.together {
    host.launch @neg(%x) outs(%a) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
    // expected-error@+1 {{'host.launch' op writes memory that @neg reads in the same host.together}}
    host.launch @neg(%x) outs(%x) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>, %y: !sym.t<[4], f32>) {
  %v = host.view %x [0] : !sym.t<[4], f32> -> !sym.t<[4], f32>
  host.together {
    host.launch @neg(%y) outs(%x) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
    // expected-error@+1 {{'host.launch' op writes memory that @neg writes in the same host.together}}
    host.launch @neg(%y) outs(%v) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) {
  %w = aten.view(%x, [4]) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %y = host.empty : !sym.t<[4], f32>
  host.together {
    host.launch @neg(%w) outs(%y) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
    // expected-error@+1 {{'host.launch' op writes memory that @neg reads in the same host.together}}
    host.launch @neg(%x) outs(%x) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) {
  %m = host.arena [128]
  %a = host.slot %m [0] : !sym.t<[4], f32>
  %b = host.slot %m [0] : !sym.t<[4], f32>
  %c = host.slot %m [64] : !sym.t<[4], f32>
  host.together {
    host.launch @neg(%x) outs(%a) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
    host.launch @neg(%x) outs(%c) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
    // expected-error@+1 {{'host.launch' op writes memory that @neg writes in the same host.together}}
    host.launch @neg(%x) outs(%b) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) {
  %a = host.empty : !sym.t<[4], f32>
  host.together {
    // expected-error@+1 {{'host.launch' op launches @exp, which is not here}}
    host.launch @exp(%x) outs(%a) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = loop.launch @neg(%x) sizes [] attributes {together = 0 : i64} : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  // expected-error@+1 {{'loop.launch' op takes a result of @neg, which it is together with}}
  %b = loop.launch @neg(%a) sizes [] attributes {together = 0 : i64} : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %b : !sym.t<[4], f32>
}

// -----

loop.kernel @checked(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.cmpf oeq, %0, %0 : f32
  loop.assert %1, "not a number"
  loop.store %0, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>, %i: !sym.t<[4], f32>) {
  %a = host.empty : !sym.t<[4], f32>
  host.together {
    // expected-error@+1 {{'host.launch' op is of @checked, which has a loop.assert: what it finds wrong could not be told}}
    host.launch @checked(%x) outs(%a) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  host.return
}

// -----

loop.kernel @neg(%x: !sym.t<[4], f32, device=cuda:0>) outs(%y: !sym.t<[4], f32, device=cuda:0>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32, device=cuda:0>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32, device=cuda:0>
  loop.end
}
func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32, device=cuda:0> {
  // expected-error@+1 {{'loop.launch' op has @neg read !sym.t<[4], f32>, but it runs on cuda:0}}
  %a = loop.launch @neg(%x) sizes [] : (!sym.t<[4], f32>) -> !sym.t<[4], f32, device=cuda:0>
  func.return %a : !sym.t<[4], f32, device=cuda:0>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{'prims.full' op uses the size width, which nothing above gives}}
  %y = prims.full {value = width} : !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %y = loop.nest [d0 = 4] {
    // expected-error@+1 {{'loop.index' op uses the size n0, which nothing above gives}}
    %i = loop.index [n0]
    %0 = loop.load %x[v0](%i) : !sym.t<[4], f32>
    loop.yield %0 : f32
  } : !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{1.5 is no integer}}
  %y = loop.nest [d0 = 1.5] {
    %0 = loop.load %x[d0] : !sym.t<[4], f32>
    loop.yield %0 : f32
  } : !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

// expected-error@+1 {{1.5*s0 is no integer}}
func.func @main(%x: !sym.t<[1.5*s0], f32>, %n: !sym.int<s0>) {
  func.return
}

// -----

// expected-error@+1 {{18446744073709551616*s0 has a number beyond 64 bits}}
func.func @main(%x: !sym.t<[18446744073709551616*s0], f32>, %n: !sym.int<s0>) {
  func.return
}

// -----

// expected-error@+1 {{a device is a name with a number below 128 or none, such as cuda:0, not 'cuda:1.5'}}
func.func @main(%x: !sym.t<[4], f32, device=cuda:1.5>) {
  func.return
}

// -----

// expected-error@+1 {{a device is a name with a number below 128 or none, such as cuda:0, not 'cuda:128'}}
func.func @main(%x: !sym.t<[4], f32, device=cuda:128>) {
  func.return
}

// -----

host.func @main(%x: !sym.t<[4], f32>) {
  %a = host.arena [64]
  // expected-error@+1 {{'host.slot' op uses the size d0, which nothing above gives}}
  %t = host.slot %a [d0] : !sym.t<[4], f32>
  host.return
}

// -----

func.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{!sym.t<[4], f32> at [13] ends 1 elements after !sym.t<[4, 4], f32>}}
  %y = loop.view %x offset [13] : !sym.t<[4, 4], f32> -> !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = loop.load %x[0] : !sym.t<[4], f32>
  %y = loop.nest [d0 = 4] {
    %0 = loop.load %x[d0] : !sym.t<[4], f32>
    // expected-error@+1 {{computes with a value from outside of loop.nest: loop.load reads elements}}
    %1 = arith.addf %0, %a : f32
    loop.yield %1 : f32
  } : !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

func.func @main(%x: !sym.t<[4, 8], i32>) -> (!sym.t<[4], i32>, !sym.t<[4], i32>) {
  // expected-error@+1 {{loop.nest combines i32 with welford, which is of other numbers}}
  %m, %v = loop.nest [d0 = 4] reduce [r0 = 8] combine [welford] {
    %0 = loop.load %x[d0, r0] : !sym.t<[4, 8], i32>
    loop.yield %0 : i32
  } : !sym.t<[4], i32>, !sym.t<[4], i32>
  func.return %m, %v : !sym.t<[4], i32>, !sym.t<[4], i32>
}

// -----

func.func @main(%x: !sym.t<[4, 8], f32>) -> !sym.t<[4], f32> {
  // expected-error@+1 {{loop.nest combines f32 with or, which is of other numbers}}
  %y = loop.nest [d0 = 4] reduce [r0 = 8] combine [or] {
    %0 = loop.load %x[d0, r0] : !sym.t<[4, 8], f32>
    loop.yield %0 : f32
  } : !sym.t<[4], f32>
  func.return %y : !sym.t<[4], f32>
}

// -----

// What an op is given is no size that it finds.
func.func @main(%x: !sym.t<[s0], f32>) {
  // expected-error@+1 {{'aten.slice.Tensor' op uses the size u0, which nothing above gives}}
  %r = aten.slice.Tensor(%x, 0, 0, u0) : (!sym.t<[s0], f32>) -> !sym.t<[u0], f32>
  func.return
}

// -----

tt.func public @double(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) attributes {lamella.grid = #loop.index<[s0]>, lamella.sizes = #loop.index<[s0]>} {
  tt.return
}
host.func @main(%x: !sym.t<[4], f32, device=cuda:0>) -> !sym.t<[4], f32, device=cuda:0> {
  %y = host.empty : !sym.t<[4], f32, device=cuda:0>
  // expected-error@+1 {{gives sizes [4, 1], @double takes [s0]}}
  host.launch @double(%x) outs(%y) sizes [4, 1] : !sym.t<[4], f32, device=cuda:0>, !sym.t<[4], f32, device=cuda:0>
  host.return %y : !sym.t<[4], f32, device=cuda:0>
}
