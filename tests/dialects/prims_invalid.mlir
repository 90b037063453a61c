// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: each rule of prims that text can break.

// operands of one shape
func.func @main(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[16], f32>) {
  // expected-error@+1 {{expected an operand of shape [s0, 16], got [16]}}
  %r = prims.add %x, %y : !sym.t<[s0, 16], f32>, !sym.t<[16], f32> -> !sym.t<[s0, 16], f32>
  func.return
}

// -----

// of one dtype
func.func @main(%x: !sym.t<[4], f32>, %y: !sym.t<[4], bf16>) {
  // expected-error@+1 {{expected operands of one dtype, all of dtype f32, got bf16}}
  %r = prims.add %x, %y : !sym.t<[4], f32>, !sym.t<[4], bf16> -> !sym.t<[4], f32>
  func.return
}

// -----

// the result's dtype
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a result of dtype f32, got bf16}}
  %r = prims.exp %x : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  func.return
}

// -----

// dtypes an op is defined for
func.func @main(%x: !sym.t<[4], i64>) {
  // expected-error@+1 {{is defined for floats, got i64}}
  %r = prims.exp %x : !sym.t<[4], i64>
  func.return
}

// -----

// bits of integers
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{is defined for integers, got f32}}
  %r = prims.and %x, %x : !sym.t<[4], f32>
  func.return
}

// -----

// a truth value
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a result of dtype i1, got f32}}
  %r = prims.lt %x, %x : !sym.t<[4], f32>
  func.return
}

// -----

// a condition
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a condition of dtype i1, got f32}}
  %r = prims.select %x, %x, %x : !sym.t<[4], f32>
  func.return
}

// -----

// the mark of rounding
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected 'rounding' on a convert to f16 or bf16, got f64}}
  %r = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], f64>
  func.return
}

// -----

// bits of one size
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected dtypes of one size, got f32 and i64}}
  %r = prims.bitcast %x : !sym.t<[4], f32> -> !sym.t<[4], i64>
  func.return
}

// -----

// integers hold integers
func.func @main() {
  // expected-error@+1 {{expected an integer value for i64, got 0.5}}
  %r = prims.full {value = 0.5} : !sym.t<[4], i64>
  func.return
}

// -----

// truth values
func.func @main() {
  // expected-error@+1 {{expected true or false for i1, and for i1 only; got 1 for i1}}
  %r = prims.full {value = 1} : !sym.t<[4], i1>
  func.return
}

// -----

// a dim
func.func @main() {
  // expected-error@+1 {{expected 'dim' within 0..0, got 1}}
  %r = prims.iota {dim = 1} : !sym.t<[4], i64>
  func.return
}

// -----

// expanding
func.func @main(%x: !sym.t<[3], f32>) {
  // expected-error@+1 {{cannot expand a dim of size 3 to 4 (result dim 0)}}
  %r = prims.broadcast %x {dims = [0]} : !sym.t<[3], f32> -> !sym.t<[4], f32>
  func.return
}

// -----

// order of dims
func.func @main(%x: !sym.t<[4, 4], f32>) {
  // expected-error@+1 {{expected ascending 'dims', got [1, 0]}}
  %r = prims.broadcast %x {dims = [1, 0]} : !sym.t<[4, 4], f32>
  func.return
}

// -----

// number of elements
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{cannot reshape 4 elements [4] into [2, 3]}}
  %r = prims.reshape %x : !sym.t<[4], f32> -> !sym.t<[2, 3], f32>
  func.return
}

// -----

// a permutation
func.func @main(%x: !sym.t<[4, 4], f32>) {
  // expected-error@+1 {{expected distinct 'perm', got [0, 0]}}
  %r = prims.transpose %x {perm = [0, 0]} : !sym.t<[4, 4], f32>
  func.return
}

// -----

// the size of a slice
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected size 2 in dim 0, got 3}}
  %r = prims.slice %x {start = [0], stop = [4], step = [2]} : !sym.t<[4], f32> -> !sym.t<[3], f32>
  func.return
}

// -----

// within the operand
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a stop of at most 4 in dim 0, got 5}}
  %r = prims.slice %x {start = [0], stop = [5], step = [1]} : !sym.t<[4], f32> -> !sym.t<[5], f32>
  func.return
}

// -----

// steps
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a step of at least 1 in dim 0, got 0}}
  %r = prims.slice %x {start = [0], stop = [4], step = [0]} : !sym.t<[4], f32>
  func.return
}

// -----

// a number around complex ones
func.func @main(%x: !sym.t<[4], c64>) {
  // expected-error@+1 {{is not defined for c64}}
  %r = prims.pad %x {low = [1], high = [1], value = 0.0} : !sym.t<[4], c64> -> !sym.t<[6], c64>
  func.return
}

// -----

// a fraction around integers
func.func @main(%x: !sym.t<[4], i32>) {
  // expected-error@+1 {{expected an integer value for i32, got 0.5}}
  %r = prims.pad %x {low = [1], high = [1], value = 0.5} : !sym.t<[4], i32> -> !sym.t<[6], i32>
  func.return
}

// -----

// what is no number
func.func @main(%x: !sym.t<[s0], f32>) {
  // expected-error@+1 {{expected a number for 'value', got s0}}
  %r = prims.pad %x {low = [0], high = [0], value = s0} : !sym.t<[s0], f32>
  func.return
}

// -----

// the size of padding
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected size 6 in dim 0, got 5}}
  %r = prims.pad %x {low = [1], high = [1], value = 0.0} : !sym.t<[4], f32> -> !sym.t<[5], f32>
  func.return
}

// -----

// sizes of cat
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected size 8 in dim 0, got 9}}
  %r = prims.cat %x, %x {dim = 0} : !sym.t<[4], f32> -> !sym.t<[9], f32>
  func.return
}

// -----

// an entry per dim
func.func @main(%x: !sym.t<[4, 4], f32>) {
  // expected-error@+1 {{expected 2 entries in 'index', got 1}}
  %r = prims.gather %x[] {index = [d0]} : !sym.t<[4, 4], f32> -> !sym.t<[4], f32>
  func.return
}

// -----

// an entry per dim, of a view
func.func @main(%x: !sym.t<[4, 4], f32>) {
  // expected-error@+1 {{expected 2 entries in 'index', got 1}}
  %r = prims.subview %x {index = [d0]} : !sym.t<[4, 4], f32> -> !sym.t<[4], f32>
  func.return
}

// -----

// names of an index of a view: it has no tensors
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'i0' in the index expression i0 names nothing}}
  %r = prims.subview %x {index = [i0]} : !sym.t<[4], f32>
  func.return
}

// -----

// names of an index
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'i0' in the index expression i0 names nothing}}
  %r = prims.gather %x[] {index = [i0]} : !sym.t<[4], f32>
  func.return
}

// -----

// index tensors
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected i32 or i64 index tensors, got f32}}
  %r = prims.gather %x[%x] {index = [i0]} : !sym.t<[4], f32>
  func.return
}

// -----

// combine
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected 'combine' to be one of none, add, mul, max, min, got xor}}
  %r = prims.scatter %x[], %x {index = [d0], combine = xor} : !sym.t<[4], f32>
  func.return
}

// -----

// kinds
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected 'kind' to be one of sum, prod, max, min, any, all, xor, argmax, argmin, got mean}}
  %r = prims.reduce %x {kind = mean, dims = [0]} : !sym.t<[4], f32> -> !sym.t<[], f32>
  func.return
}

// -----

// reduced dims go
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a result of shape [], got [1]}}
  %r = prims.reduce %x {kind = sum, dims = [0]} : !sym.t<[4], f32> -> !sym.t<[1], f32>
  func.return
}

// -----

// positions
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a result of dtype i64, got f32}}
  %r = prims.reduce %x {kind = argmax, dims = [0]} : !sym.t<[4], f32> -> !sym.t<[], f32>
  func.return
}

// -----

// bits of floats
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected integers for kind xor, got f32}}
  %r = prims.reduce %x {kind = xor, dims = [0]} : !sym.t<[4], f32> -> !sym.t<[], f32>
  func.return
}

// -----

// sums of truth values
func.func @main(%x: !sym.t<[4], i1>) {
  // expected-error@+1 {{expected numbers for kind sum, got i1}}
  %r = prims.reduce %x {kind = sum, dims = [0]} : !sym.t<[4], i1> -> !sym.t<[], i1>
  func.return
}

// -----

// variance of floats
func.func @main(%x: !sym.t<[4], i64>) {
  // expected-error@+1 {{is defined for floats, got i64}}
  %r, %s = prims.var_mean %x {dims = [0]} : !sym.t<[4], i64> -> !sym.t<[], i64>, !sym.t<[], i64>
  func.return
}

// -----

// orders
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{is defined for i32 and i64, got f32}}
  %r = prims.sort %x {dim = 0} : !sym.t<[4], f32>
  func.return
}

// -----

func.func @main(%x: !sym.t<[2, 4], i32>) {
  // expected-error@+1 {{expected at most 4 elements along dim 1, got 5}}
  %r = prims.sort %x {dim = 1} : !sym.t<[2, 4], i32> -> !sym.t<[2, 5], i32>
  func.return
}

// -----

func.func @main(%x: !sym.t<[2, 4], i32>) {
  // expected-error@+1 {{expected a result of shape [2, 3], got [3, 3]}}
  %r = prims.sort %x {dim = 1} : !sym.t<[2, 4], i32> -> !sym.t<[3, 3], i32>
  func.return
}

// -----

func.func @main(%x: !sym.t<[2, 4], i32>) {
  // expected-error@+1 {{expected a result of rank 2, got 1}}
  %r = prims.sort %x {dim = 1} : !sym.t<[2, 4], i32> -> !sym.t<[4], i32>
  func.return
}

// -----

func.func @main(%x: !sym.t<[4], i32>) {
  // expected-error@+1 {{expected 'dim' within 0..0, got 1}}
  %r = prims.sort %x {dim = 1} : !sym.t<[4], i32>
  func.return
}

// -----

// scans
func.func @main(%x: !sym.t<[4], i64>) {
  // expected-error@+1 {{expected floats for kind logsumexp, got i64}}
  %r = prims.scan %x {kind = logsumexp, dim = 0} : !sym.t<[4], i64>
  func.return
}

// -----

// a missing attribute
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{prims.reduce needs the attribute 'dims'}}
  %r = prims.reduce %x {kind = sum} : !sym.t<[4], f32> -> !sym.t<[], f32>
  func.return
}

// -----

// an unknown attribute
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{malformed attributes of prims.exp: unexpected 'fast'; prims.exp has no attributes}}
  %r = prims.exp %x {fast} : !sym.t<[4], f32>
  func.return
}

// -----

// a bad expression
// a condition that is checked
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected a condition of dtype i1, got f32}}
  %r = prims.checked %x, %x {message = "no"} : !sym.t<[4], f32>
  func.return
}

// -----

func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{malformed attributes of prims.flip}}
  %r = prims.flip %x {dims = [d0 +]} : !sym.t<[4], f32>
  func.return
}

// -----

// types of operands
func.func @main(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{expected 1 or 3 operand types, got 2}}
  %r = prims.select %x, %x, %x : !sym.t<[4], f32>, !sym.t<[4], f32> -> !sym.t<[4], f32>
  func.return
}

// -----

// not a tensor
func.func @main(%x: i32) {
  // expected-error@+1 {{at position 0 does not verify}}
  %r = prims.exp %x : i32
  func.return
}

// -----

// factors
func.func @main(%x: !sym.t<[4, 8], f32>, %y: !sym.t<[4, 8], f32>) {
  // expected-error@+1 {{expected rhs of shape [8, 8], got [4, 8]}}
  %r = prims.dot %x, %y : !sym.t<[4, 8], f32> -> !sym.t<[4, 8], f32>
  func.return
}

// -----

// batches
func.func @main(%x: !sym.t<[2, 4, 8], f32>, %y: !sym.t<[8, 3], f32>) {
  // expected-error@+1 {{expected rhs of shape [2, 8, 3], got [8, 3]}}
  %r = prims.dot %x, %y : !sym.t<[2, 4, 8], f32>, !sym.t<[8, 3], f32> -> !sym.t<[2, 4, 3], f32>
  func.return
}

// -----

// vectors
func.func @main(%x: !sym.t<[8], f32>) {
  // expected-error@+1 {{expected matrices, got lhs of shape [8]}}
  %r = prims.dot %x, %x : !sym.t<[8], f32> -> !sym.t<[], f32>
  func.return
}

// -----

// sums of products
func.func @main(%x: !sym.t<[4, 4], f32>) {
  // expected-error@+1 {{expected a result that holds products of f32, got bf16}}
  %r = prims.dot %x, %x : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
  func.return
}

// -----

// truth values
func.func @main(%x: !sym.t<[4, 4], i1>) {
  // expected-error@+1 {{is not defined for i1}}
  %r = prims.dot %x, %x : !sym.t<[4, 4], i1>
  func.return
}

// -----

func.func @main(%x: !sym.t<[s0], f32>) {
  // expected-error@+1 {{expected size s0 - 7 in dim 0, got s0 - 1}}
  %r = prims.slice %x {start = [7], stop = [s0], step = [1]} : !sym.t<[s0], f32> -> !sym.t<[s0 - 1], f32>
  func.return
}
