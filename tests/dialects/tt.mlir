// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s --generic | lamella-opt - | filecheck %s
// RUN: lamella-opt %s | lamella-opt - | filecheck %s
// What is checked: every op of the tt dialect, as Triton prints it, reads back from both forms and prints the same.

// CHECK: tt.func public @memory(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
tt.func public @memory(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
  // CHECK-NEXT: %pid = tt.get_program_id x : i32
  %pid = tt.get_program_id x : i32
  // CHECK-NEXT: %programs = tt.get_num_programs z : i32
  %programs = tt.get_num_programs z : i32
  // CHECK-NEXT: %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  // CHECK-NEXT: %bound = tt.splat %n : i32 -> tensor<128xi32>
  %bound = tt.splat %n : i32 -> tensor<128xi32>
  // CHECK-NEXT: %mask = arith.cmpi slt, %range, %bound : tensor<128xi32>
  %mask = arith.cmpi slt, %range, %bound : tensor<128xi32>
  // CHECK-NEXT: %ptrs = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %ptrs = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: %at = tt.addptr %ptrs, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %at = tt.addptr %ptrs, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  // CHECK-NEXT: %other = arith.constant dense<0xFF800000> : tensor<128xf32>
  %other = arith.constant dense<0xFF800000> : tensor<128xf32>
  // CHECK-NEXT: %scalar = tt.load %p : !tt.ptr<f32>
  %scalar = tt.load %p : !tt.ptr<f32>
  // CHECK-NEXT: %a = tt.load %at, %mask : tensor<128x!tt.ptr<f32>>
  %a = tt.load %at, %mask : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: %b = tt.load %at, %mask, %other cacheModifier = cg evictionPolicy = evict_last {isVolatile = true} : tensor<128x!tt.ptr<f32>>
  %b = tt.load %at, %mask, %other cacheModifier = cg evictionPolicy = evict_last {isVolatile = true} : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: tt.store %at, %a : tensor<128x!tt.ptr<f32>>
  tt.store %at, %a : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: tt.store %at, %b, %mask cacheModifier = cs evictionPolicy = evict_first : tensor<128x!tt.ptr<f32>>
  tt.store %at, %b, %mask cacheModifier = cs evictionPolicy = evict_first : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: %old = tt.atomic_rmw fadd, relaxed, gpu, %at, %a, %mask : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> tensor<128xf32>
  %old = tt.atomic_rmw fadd, relaxed, gpu, %at, %a, %mask : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> tensor<128xf32>
  // CHECK-NEXT: %swapped = tt.atomic_cas acq_rel, sys, %p, %scalar, %scalar : (!tt.ptr<f32>, f32, f32) -> f32
  %swapped = tt.atomic_cas acq_rel, sys, %p, %scalar, %scalar : (!tt.ptr<f32>, f32, f32) -> f32
  // CHECK-NEXT: %address = tt.ptr_to_int %at : tensor<128x!tt.ptr<f32>> -> tensor<128xi64>
  %address = tt.ptr_to_int %at : tensor<128x!tt.ptr<f32>> -> tensor<128xi64>
  // CHECK-NEXT: %back = tt.int_to_ptr %address : tensor<128xi64> -> tensor<128x!tt.ptr<i8>>
  %back = tt.int_to_ptr %address : tensor<128xi64> -> tensor<128x!tt.ptr<i8>>
  // CHECK-NEXT: %bits = tt.bitcast %a : tensor<128xf32> -> tensor<128xi32>
  %bits = tt.bitcast %a : tensor<128xf32> -> tensor<128xi32>
  // CHECK-NEXT: tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %a : tensor<128xf32>
  tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %a : tensor<128xf32>
  // CHECK-NEXT: tt.assert %mask, "in bounds" : tensor<128xi1>
  tt.assert %mask, "in bounds" : tensor<128xi1>
  // CHECK-NEXT: tt.return
  tt.return
}
