// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: each rule of the tt dialect that text can break. Most of them stand for what Triton's compiler does
// not take, and for what would end its process.

tt.func public @result(%n: i32) -> i32 {
  // expected-error@-1 {{a kernel, which is a public function, returns nothing}}
  tt.return %n : i32
}

// -----

tt.func public @argument(%x: tensor<8xf32>) {
  // expected-error@-1 {{a kernel, which is a public function, takes no tensors}}
  tt.return
}

// -----

tt.func private @returned(%n: i32) -> i64 {
  // expected-error@+1 {{the types returned are not those of @returned}}
  tt.return %n : i32
}

// -----

// expected-error@+1 {{1 arg_attrs for 2 arguments}}
"tt.func"() <{sym_name = "k", sym_visibility = "public", function_type = (i32, i32) -> (), arg_attrs = [{}]}> ({
^bb0(%a: i32, %b: i32):
  "tt.return"() : () -> ()
}) : () -> ()

// -----

// expected-error@+1 {{the arguments of the entry block are not those of the function type}}
"tt.func"() <{sym_name = "k", sym_visibility = "public", function_type = (i32) -> ()}> ({
^bb0(%a: i64):
  "tt.return"() : () -> ()
}) : () -> ()

// -----

tt.func public @callee() {
  // expected-error@+1 {{calls @nobody, which is no function of its module}}
  tt.call @nobody() : () -> ()
  tt.return
}

// -----

tt.func private @other(%n: i32) {
  tt.return
}
tt.func public @signature(%n: i64) {
  // expected-error@+1 {{@other is (i32) -> ()}}
  tt.call @other(%n) : (i64) -> ()
  tt.return
}

// -----

tt.func public @axis() {
  // expected-error@+1 {{3 is no axis; known: 0 (x), 1 (y), 2 (z)}}
  %i = "tt.get_program_id"() <{axis = 3 : i32}> : () -> i32
  tt.return
}

// -----

tt.func public @word() {
  // expected-error@+1 {{'w' is no axis; known: x, y, z}}
  %i = tt.get_program_id w : i32
  tt.return
}

// -----

tt.func public @signs(%n: i32) {
  // expected-error@+1 {{isSigned says 0 times for 1 values}}
  tt.print "n" {hex = false, isSigned = array<i32>} : %n : i32
  tt.return
}

// -----

// Sizes and types of tensors

tt.func public @power() {
  // expected-error@+1 {{sizes of tensors are powers of two, not tensor<96xi32>}}
  %r = tt.make_range {end = 96 : i32, start = 0 : i32} : tensor<96xi32>
  tt.return
}

// -----

tt.func public @power_of_arith() {
  // expected-error@+1 {{sizes of tensors are powers of two, not tensor<3xf32>}}
  %c = arith.constant dense<1.0> : tensor<3xf32>
  tt.return
}

// -----

tt.func public @most(%x: f32) {
  // expected-error@+1 {{a tensor has at most 1048576 elements, not 2097152: tensor<2097152xf32>}}
  %t = tt.splat %x : f32 -> tensor<2097152xf32>
  tt.return
}

// -----

tt.func public @range() {
  // expected-error@+1 {{the range 0 to 8 is a tensor<8xi32>, not tensor<16xi32>}}
  %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<16xi32>
  tt.return
}

// -----

tt.func private @splat(%x: tensor<4xf32>) {
  // expected-error@+1 {{a scalar is splatted, not tensor<4xf32>}}
  %t = tt.splat %x : tensor<4xf32> -> tensor<4x4xf32>
  tt.return
}

// -----

tt.func private @elements(%x: f32) {
  // expected-error@+1 {{element types differ: f32, f64}}
  %t = tt.splat %x : f32 -> tensor<4xf64>
  tt.return
}

// -----

tt.func private @unsplat(%x: tensor<4xf32>) {
  // expected-error@+1 {{a tensor of one element gives a scalar, not tensor<4xf32> a f32}}
  %t = tt.unsplat %x : tensor<4xf32>
  tt.return
}

// -----

tt.func private @expand_axis(%x: tensor<4xf32>) {
  // expected-error@+1 {{axis 2 is outside of 0 to 1}}
  %t = tt.expand_dims %x {axis = 2 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  tt.return
}

// -----

tt.func private @expand_shape(%x: tensor<4xf32>) {
  // expected-error@+1 {{tensor<4xf32> with a new axis 0 is not tensor<4x1xf32>}}
  %t = tt.expand_dims %x {axis = 0 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  tt.return
}

// -----

tt.func private @broadcast(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{dims of size 1 are repeated: tensor<2x4xf32> is no tensor<4x4xf32>}}
  %t = tt.broadcast %x : tensor<2x4xf32> -> tensor<4x4xf32>
  tt.return
}

// -----

tt.func private @reshape(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{tensor<2x4xf32> has 8 elements, tensor<16xf32> 16}}
  %t = tt.reshape %x : tensor<2x4xf32> -> tensor<16xf32>
  tt.return
}

// -----

tt.func private @permutation(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{order [0, 0] is no permutation of the 2 dims}}
  %t = tt.trans %x {order = array<i32: 0, 0>} : tensor<2x4xf32> -> tensor<2x2xf32>
  tt.return
}

// -----

tt.func private @transposed(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{tensor<2x4xf32> in order [1, 0] is not tensor<2x4xf32>}}
  %t = tt.trans %x {order = array<i32: 1, 0>} : tensor<2x4xf32> -> tensor<2x4xf32>
  tt.return
}

// -----

tt.func private @cat(%x: tensor<4xf32>) {
  // expected-error@+1 {{two of tensor<4xf32> do not make a tensor<16xf32>}}
  %t = tt.cat %x, %x : tensor<4xf32> -> tensor<16xf32>
  tt.return
}

// -----

tt.func private @join(%x: tensor<4xf32>) {
  // expected-error@+1 {{two of tensor<4xf32> joined are not tensor<2x4xf32>}}
  %t = tt.join %x, %x : tensor<4xf32> -> tensor<2x4xf32>
  tt.return
}

// -----

tt.func private @split(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{tensor<4x4xf32> does not split into two of tensor<4xf32>}}
  %a, %b = tt.split %x : tensor<4x4xf32> -> tensor<4xf32>
  tt.return
}

// -----

// Memory

tt.func public @bool(%p: !tt.ptr<i1>) {
  // expected-error@+1 {{a bool is an i8 in memory: Triton aborts on pointers to i1 that are followed}}
  %x = tt.load %p : !tt.ptr<i1>
  tt.return
}

// -----

tt.func public @stored_bool(%p: !tt.ptr<i1>, %x: i1) {
  // expected-error@+1 {{a bool is an i8 in memory}}
  tt.store %p, %x : !tt.ptr<i1>
  tt.return
}

// -----

tt.func public @wide(%p: !tt.ptr<i128>) {
  // expected-error@+1 {{no memory holds i128}}
  %x = tt.load %p : !tt.ptr<i128>
  tt.return
}

// -----

tt.func public @index(%p: !tt.ptr<index>) {
  // expected-error@+1 {{no memory holds index}}
  %x = tt.load %p : !tt.ptr<index>
  tt.return
}

// -----

tt.func public @pointers(%p: !tt.ptr<!tt.ptr<f32>>) {
  // expected-error@+1 {{pointers in memory are i64: Triton aborts on pointers to pointers}}
  %x = tt.load %p : !tt.ptr<!tt.ptr<f32>>
  tt.return
}

// -----

tt.func public @no_pointer(%x: f32) {
  // expected-error@+1 {{expected a pointer or a tensor of pointers, got f32}}
  %y = tt.load %x : f32
  tt.return
}

// -----

tt.func public @segments(%p: !tt.ptr<f32>) {
  // expected-error@+1 {{operand count (1) does not match with the total size (2) specified in attribute 'operandSegmentSizes'}}
  %x = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!tt.ptr<f32>) -> f32
  tt.return
}

// -----

tt.func public @no_segments(%p: !tt.ptr<f32>) {
  // expected-error@+1 {{Expected operandSegmentSizes property in tt.load operation}}
  %x = "tt.load"(%p) : (!tt.ptr<f32>) -> f32
  tt.return
}

// -----

tt.func public @unknown_property(%p: !tt.ptr<f32>) {
  // expected-error@+1 {{property 'eviction' is not defined by the operation 'tt.load'}}
  %x = "tt.load"(%p) <{eviction = 2 : i32, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> f32
  tt.return
}

// -----

tt.func public @loaded(%p: !tt.ptr<f32>) {
  // expected-error@+1 {{a load through !tt.ptr<f32> is a f32, not f64}}
  %x = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> f64
  tt.return
}

// -----

tt.func public @mask(%p: !tt.ptr<f32>, %m: i8) {
  // expected-error@+1 {{operand 'mask' at position 1 does not verify}}
  %x = "tt.load"(%p, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!tt.ptr<f32>, i8) -> f32
  tt.return
}

// -----

tt.func private @mask_shape(%p: tensor<4x!tt.ptr<f32>>, %m: i1) {
  // expected-error@+1 {{the mask for tensor<4x!tt.ptr<f32>> is a tensor<4xi1>, not i1}}
  %x = "tt.load"(%p, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<4x!tt.ptr<f32>>, i1) -> tensor<4xf32>
  tt.return
}

// -----

tt.func public @other(%p: !tt.ptr<f32>, %m: i1, %o: f64) {
  // expected-error@+1 {{other for !tt.ptr<f32> is a f32, not f64}}
  %x = "tt.load"(%p, %m, %o) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (!tt.ptr<f32>, i1, f64) -> f32
  tt.return
}

// -----

tt.func public @other_alone(%p: !tt.ptr<f32>, %o: f32) {
  // expected-error@+1 {{other is what a mask leaves out: it needs a mask}}
  %x = "tt.load"(%p, %o) <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (!tt.ptr<f32>, f32) -> f32
  tt.return
}

// -----

tt.func public @cache(%p: !tt.ptr<f32>) {
  // expected-error@+1 {{99 is no cache modifier; known: 1 (none), 2 (ca), 3 (cg), 4 (wb), 5 (cs), 6 (wt), 7 (cv)}}
  %x = "tt.load"(%p) <{cache = 99 : i32, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> f32
  tt.return
}

// -----

tt.func public @stored(%p: !tt.ptr<f32>, %x: f64) {
  // expected-error@+1 {{a store through !tt.ptr<f32> is a f32, not f64}}
  "tt.store"(%p, %x) : (!tt.ptr<f32>, f64) -> ()
  tt.return
}

// -----

tt.func private @offsets(%p: tensor<4x!tt.ptr<f32>>, %i: i32) {
  // expected-error@+1 {{shapes differ: tensor<4x!tt.ptr<f32>>, i32, tensor<4x!tt.ptr<f32>>}}
  %q = tt.addptr %p, %i : tensor<4x!tt.ptr<f32>>, i32
  tt.return
}

// -----

tt.func public @atomic_kind(%p: !tt.ptr<f32>, %x: f32) {
  // expected-error@+1 {{max of f32: floats take fadd and exch, integers all but fadd}}
  %o = tt.atomic_rmw max, relaxed, gpu, %p, %x : (!tt.ptr<f32>, f32) -> f32
  tt.return
}

// -----

tt.func public @atomic_bits(%p: !tt.ptr<i8>, %x: i8) {
  // expected-error@+1 {{there is no add of i8}}
  %o = tt.atomic_rmw add, relaxed, gpu, %p, %x : (!tt.ptr<i8>, i8) -> i8
  tt.return
}

// -----

tt.func public @swap_bits(%p: !tt.ptr<i8>, %x: i8) {
  // expected-error@+1 {{there is no compare and swap of i8}}
  %o = tt.atomic_cas relaxed, gpu, %p, %x, %x : (!tt.ptr<i8>, i8, i8) -> i8
  tt.return
}

// -----

// Arithmetic

tt.func private @negf(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no code for tensors; there is arith.subf from -0.0}}
  %y = arith.negf %x : tensor<4xf32>
  tt.return
}

// -----

tt.func private @tanh(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no code for tensors; there is tt.extern_elementwise of __nv_tanh}}
  %y = math.tanh %x : tensor<4xf32>
  tt.return
}

// -----

tt.func private @in_a_region(%x: tensor<4xf32>, %c: i1) {
  scf.if %c {
    // expected-error@+1 {{has no code for tensors; there is tt.bitcast}}
    %y = arith.bitcast %x : tensor<4xf32> to tensor<4xi32>
  }
  tt.return
}

// -----

tt.func private @half(%x: f16) {
  // expected-error@+1 {{has no code for f16; divide in f32}}
  %y = arith.divf %x, %x : f16
  tt.return
}

// -----

tt.func private @f8(%x: tensor<4xf8E5M2>) {
  // expected-error@+1 {{has no code for f8E5M2; tt.fp_to_fp converts it}}
  %y = arith.extf %x : tensor<4xf8E5M2> to tensor<4xf32>
  tt.return
}

// -----

tt.func private @exact(%x: tensor<4xf64>) {
  // expected-error@+1 {{operand 'x' at position 0 does not verify}}
  %y = "tt.precise_sqrt"(%x) : (tensor<4xf64>) -> tensor<4xf64>
  tt.return
}

// -----

tt.func private @libdevice(%x: tensor<4xf64>) {
  // expected-error@+1 {{__nv_tanhf takes f32, not f64}}
  %y = tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__nv_tanhf"} : (tensor<4xf64>) -> tensor<4xf64>
  tt.return
}

// -----

tt.func private @bits(%x: tensor<4xf64>) {
  // expected-error@+1 {{f64 has 64 bits, i32 32}}
  %y = tt.bitcast %x : tensor<4xf64> -> tensor<4xi32>
  tt.return
}

// -----

tt.func private @pointer_bits(%x: i64) {
  // expected-error@+1 {{pointers and numbers convert by tt.int_to_ptr and tt.ptr_to_int}}
  %y = tt.bitcast %x : i64 -> !tt.ptr<f32>
  tt.return
}

// -----

tt.func private @rounding(%x: tensor<4xf32>) {
  // expected-error@+1 {{rounding is needed from f32 to f8E4M3FN}}
  %y = tt.fp_to_fp %x : tensor<4xf32> -> tensor<4xf8E4M3FN>
  tt.return
}

// -----

tt.func private @rounding_mode(%x: tensor<4xf32>) {
  // expected-error@+1 {{from f32 to f8E4M3FN there is rounding rtne only}}
  %y = tt.fp_to_fp %x, rounding = rtz : tensor<4xf32> -> tensor<4xf8E4M3FN>
  tt.return
}

// -----

tt.func private @conversion(%x: tensor<4xf64>) {
  // expected-error@+1 {{there is no conversion from f64 to f32; arith has extf and truncf}}
  %y = tt.fp_to_fp %x, rounding = rtne : tensor<4xf64> -> tensor<4xf32>
  tt.return
}

// -----

tt.func private @compare(%x: tensor<4xi32>) {
  // expected-error@+1 {{a compare of tensor<4xi32> gives tensor<4xi1>, not i1}}
  %y = "arith.cmpi"(%x, %x) <{predicate = 2 : i64}> : (tensor<4xi32>, tensor<4xi32>) -> i1
  tt.return
}

// -----

tt.func private @compared(%x: tensor<4xi32>, %y: tensor<4xi64>) {
  // expected-error@+1 {{compares values of one type, not tensor<4xi32> and tensor<4xi64>}}
  %z = "arith.cmpi"(%x, %y) <{predicate = 2 : i64}> : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi1>
  tt.return
}

// -----

tt.func private @predicate(%x: tensor<4xi32>) {
  // expected-error@+1 {{unknown predicate 'less'; known: eq, ne, slt}}
  %z = arith.cmpi less, %x, %x : tensor<4xi32>
  tt.return
}

// -----

tt.func private @select(%c: tensor<2xi1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{a condition tensor<2xi1> for values of type tensor<4xf32>}}
  %z = arith.select %c, %x, %x : tensor<2xi1>, tensor<4xf32>
  tt.return
}

// -----

tt.func private @wider(%x: tensor<4xi32>) {
  // expected-error@+1 {{arith.extsi gives more bits, not tensor<4xi32> to tensor<4xi32>}}
  %z = arith.extsi %x : tensor<4xi32> to tensor<4xi32>
  tt.return
}

// -----

tt.func private @cast_shape(%x: tensor<4xi32>) {
  // expected-error@+1 {{shapes differ: tensor<4xi32> to tensor<8xf32>}}
  %z = arith.sitofp %x : tensor<4xi32> to tensor<8xf32>
  tt.return
}

// -----

// Products and reductions

tt.func private @product(%a: tensor<16x32xf32>, %c: tensor<16x16xf32>) {
  // expected-error@+1 {{tensor<16x32xf32> times tensor<16x32xf32> is no tensor<16x16xf32>}}
  %d = tt.dot %a, %a, %c : tensor<16x32xf32> * tensor<16x32xf32> -> tensor<16x16xf32>
  tt.return
}

// -----

tt.func private @rank(%a: tensor<16xf32>) {
  // expected-error@+1 {{a dot takes three tensors of rank 2 or 3, not tensor<16xf32>, tensor<16xf32> and tensor<16xf32>}}
  %d = tt.dot %a, %a, %a : tensor<16xf32> * tensor<16xf32> -> tensor<16xf32>
  tt.return
}

// -----

tt.func private @mixed(%a: tensor<16x16xf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf32>) {
  // expected-error@+1 {{there is no dot of f16 with bf16}}
  %d = tt.dot %a, %b, %c : tensor<16x16xf16> * tensor<16x16xbf16> -> tensor<16x16xf32>
  tt.return
}

// -----

tt.func private @sums(%a: tensor<16x16xbf16>) {
  // expected-error@+1 {{there is no dot of bf16 that adds up in bf16}}
  %d = tt.dot %a, %a, %a : tensor<16x16xbf16> * tensor<16x16xbf16> -> tensor<16x16xbf16>
  tt.return
}

// -----

tt.func private @histogram(%x: tensor<8xi64>) {
  // expected-error@+1 {{a histogram is a tensor of rank 1 of i32 and so is its source, not tensor<8xi64>}}
  %h = tt.histogram %x : tensor<8xi64> -> tensor<8xi32>
  tt.return
}

// -----

tt.func private @gather_axis(%x: tensor<8xi64>, %i: tensor<8xi32>) {
  // expected-error@+1 {{indices tensor<8xi32> along axis 1 of tensor<8xi64>}}
  %g = tt.gather %x[%i] {axis = 1 : i32} : (tensor<8xi64>, tensor<8xi32>) -> tensor<8xi64>
  tt.return
}

// -----

tt.func private @gather_size(%x: tensor<2x8xi64>, %i: tensor<4x8xi32>) {
  // expected-error@+1 {{indices tensor<4x8xi32> are larger than tensor<2x8xi64> beside axis 1}}
  %g = tt.gather %x[%i] {axis = 1 : i32} : (tensor<2x8xi64>, tensor<4x8xi32>) -> tensor<4x8xi64>
  tt.return
}

// -----

tt.func private @gather_result(%x: tensor<8xi64>, %i: tensor<4xi32>) {
  // expected-error@+1 {{the result has the shape of tensor<4xi32>, not tensor<8xi64>}}
  %g = tt.gather %x[%i] {axis = 0 : i32} : (tensor<8xi64>, tensor<4xi32>) -> tensor<8xi64>
  tt.return
}

// -----

tt.func private @axis_of_reduce(%x: tensor<8xf32>) {
  // expected-error@+1 {{axis 1 is outside of the 1 dims of tensor<8xf32>}}
  %r = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    tt.reduce.return %a : f32
  }) : (tensor<8xf32>) -> f32
  tt.return
}

// -----

tt.func private @rank_zero(%x: tensor<8xf32>) {
  // expected-error@+1 {{the results along axis 0 are f32, not tensor<f32>}}
  %r = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    tt.reduce.return %a : f32
  }) : (tensor<8xf32>) -> tensor<f32>
  tt.return
}

// -----

tt.func private @shapes_of_reduce(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{operands differ in shape: tensor<8xf32>, tensor<4xf32>}}
  %r, %s = "tt.reduce"(%x, %y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tt.reduce.return %a, %b : f32, f32
  }) : (tensor<8xf32>, tensor<4xf32>) -> (f32, f32)
  tt.return
}

// -----

tt.func private @arguments_of_region(%x: tensor<8xf32>) {
  // expected-error@+1 {{the region takes f32, f32, not f32}}
  %r = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32):
    tt.reduce.return %a : f32
  }) : (tensor<8xf32>) -> f32
  tt.return
}

// -----

tt.func private @end_of_region(%x: tensor<8xf32>) {
  // expected-error@+1 {{the region ends in tt.scan.return}}
  %r = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%a: f32, %b: f32):
    tt.reduce.return %a : f32
  }) : (tensor<8xf32>) -> tensor<8xf32>
  tt.return
}

// -----

tt.func private @returned_by_region(%x: tensor<8xf32>, %i: i32) {
  // expected-error@+1 {{the region returns f32, not i32}}
  %r = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%a: f32, %b: f32):
    tt.scan.return %i : i32
  }) : (tensor<8xf32>) -> tensor<8xf32>
  tt.return
}

// -----

tt.func private @scanned(%x: tensor<8xf32>) {
  // expected-error@+1 {{a scan gives the types of its operands, not tensor<8xf64>}}
  %r = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%a: f32, %b: f32):
    tt.scan.return %a : f32
  }) : (tensor<8xf32>) -> tensor<8xf64>
  tt.return
}

// -----

// Descriptors

// expected-error@+1 {{blocks have one to five dimensions, not those of tensor<1x1x1x1x8x8xf32>}}
tt.func public @dimensions(%d: !tt.tensordesc<tensor<1x1x1x1x8x8xf32>>) {
  tt.return
}

// -----

// expected-error@+1 {{no tensor descriptor moves i1}}
tt.func public @bools(%d: !tt.tensordesc<tensor<8x8xi1>>) {
  tt.return
}

// -----

tt.func public @sizes(%p: !tt.ptr<f32>, %n: i32, %s: i64) {
  // expected-error@+1 {{1 sizes for a block of type tensor<8x8xf32>}}
  %d = tt.make_tensor_descriptor %p, [%n], [%s] : !tt.ptr<f32>, !tt.tensordesc<tensor<8x8xf32>>
  tt.return
}

// -----

tt.func public @pointee(%p: !tt.ptr<f32>, %n: i32, %s: i64) {
  // expected-error@+1 {{a block of f64 at a pointer to f32}}
  %d = tt.make_tensor_descriptor %p, [%n], [%s] : !tt.ptr<f32>, !tt.tensordesc<tensor<8xf64>>
  tt.return
}

// -----

tt.func public @block_sizes(%p: !tt.ptr<f32>, %n: i64, %i: i32) {
  // expected-error@+1 {{1 sizes for a block of type tensor<8x8xf32>}}
  %q = tt.make_tensor_ptr %p, [%n], [%n], [%i] {order = array<i32: 1, 0>} : <tensor<8x8xf32>>
  tt.return
}

// -----

tt.func public @block_offsets(%p: !tt.ptr<f32>, %n: i64, %i: i32) {
  %q = tt.make_tensor_ptr %p, [%n, %n], [%n, %n], [%i, %i] {order = array<i32: 1, 0>} : <tensor<8x8xf32>>
  // expected-error@+1 {{1 offsets for a block of type tensor<8x8xf32>}}
  %r = tt.advance %q, [%i] : <tensor<8x8xf32>>
  tt.return
}

// -----

tt.func public @no_block(%p: !tt.ptr<f32>, %i: i32) {
  // expected-error@+1 {{expected a pointer to a block, got !tt.ptr<f32>}}
  %r = tt.advance %p, [%i] : <f32>
  tt.return
}

// -----

tt.func public @indices(%d: !tt.tensordesc<tensor<8x8xf32>>, %n: i32) {
  // expected-error@+1 {{1 indices into blocks of type tensor<8x8xf32>}}
  %x = tt.descriptor_load %d[%n] : !tt.tensordesc<tensor<8x8xf32>> -> tensor<8x8xf32>
  tt.return
}

// -----

tt.func public @block(%d: !tt.tensordesc<tensor<8x8xf32>>, %n: i32) {
  // expected-error@+1 {{a tensor<8x4xf32> is no block of type tensor<8x8xf32>}}
  %x = tt.descriptor_load %d[%n, %n] : !tt.tensordesc<tensor<8x8xf32>> -> tensor<8x4xf32>
  tt.return
}

// -----

tt.func private @one_row(%d: !tt.tensordesc<tensor<8x8xf32>>, %r: tensor<8xi32>, %n: i32) {
  // expected-error@+1 {{gathered blocks are one row, not tensor<8x8xf32>}}
  %x = tt.descriptor_gather %d[%r, %n] : (!tt.tensordesc<tensor<8x8xf32>>, tensor<8xi32>, i32) -> tensor<8x8xf32>
  tt.return
}

// -----

tt.func private @few_rows(%d: !tt.tensordesc<tensor<1x8xf32>>, %r: tensor<4xi32>, %n: i32) {
  // expected-error@+1 {{at least 8 rows are gathered at a time, not 4}}
  %x = tt.descriptor_gather %d[%r, %n] : (!tt.tensordesc<tensor<1x8xf32>>, tensor<4xi32>, i32) -> tensor<4x8xf32>
  tt.return
}

// -----

tt.func private @rows(%d: !tt.tensordesc<tensor<1x8xf32>>, %r: tensor<8xi32>, %n: i32) {
  // expected-error@+1 {{rows tensor<8xi32> of tensor<1x8xf32> are no tensor<16x8xf32>}}
  %x = tt.descriptor_gather %d[%r, %n] : (!tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, i32) -> tensor<16x8xf32>
  tt.return
}
