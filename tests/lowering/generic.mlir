// RUN: lamella-opt %s -p canonicalize --print-locations | filecheck %s --check-prefix=CANON
// RUN: lamella-opt %s -p cse,dce --print-locations | filecheck %s --check-prefix=CSE
// RUN: lamella-opt %s -p strip-locations --print-locations | filecheck %s --check-prefix=STRIP

// A folded constant stands where the op stood that it was folded from.
// CANON-LABEL: func.func @fold
// CANON-NEXT:    %[[C:.*]] = arith.constant 3 : i32 loc("m.py":3:1)
// CANON-NEXT:    func.return %[[C]] : i32 loc("m.py":4:1)
// STRIP-NOT: loc(
func.func @fold(%x: i32 loc("m.py":0:1)) -> i32 {
  %a = arith.constant 1 : i32 loc("m.py":1:1)
  %b = arith.constant 2 : i32 loc("m.py":2:1)
  %c = arith.addi %a, %b : i32 loc("m.py":3:1)
  func.return %c : i32 loc("m.py":4:1)
} loc("m.py":5:1)

// CSE-LABEL: func.func @twice
// CSE-NEXT:    %[[A:.*]] = arith.addi %x, %x : i32 loc("m.py":1:1)
// CSE-NEXT:    %[[C:.*]] = arith.muli %[[A]], %[[A]] : i32 loc("m.py":3:1)
// CSE-NEXT:    func.return %[[C]]
func.func @twice(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32 loc("m.py":1:1)
  %b = arith.addi %x, %x : i32 loc("m.py":2:1)
  %c = arith.muli %a, %b : i32 loc("m.py":3:1)
  %dead = arith.subi %a, %b : i32 loc("m.py":4:1)
  func.return %c : i32
}

// A compare of tensors stays: what xDSL knows of compares makes a scalar.
// CANON-LABEL: tt.func private @tensors
// CANON-NEXT:    %[[LESS:.*]] = arith.cmpi slt, %x, %x : tensor<8xi32>
// CANON-NEXT:    tt.return %[[LESS]] : tensor<8xi1>
tt.func private @tensors(%x: tensor<8xi32>, %y: tensor<8xi1>) -> tensor<8xi1> {
  %less = arith.cmpi slt, %x, %x : tensor<8xi32>
  %same = arith.select %less, %y, %y : tensor<8xi1>, tensor<8xi1>
  tt.return %less : tensor<8xi1>
}

// A load is not one from before a store.
// CSE-LABEL: tt.func public @memory
// CSE-NEXT:    %[[A:.*]] = tt.load %p : !tt.ptr<f32>
// CSE-NEXT:    %[[B:.*]] = arith.addf %[[A]], %[[A]] : f32
// CSE-NEXT:    tt.store %p, %[[B]] : !tt.ptr<f32>
// CSE-NEXT:    %[[C:.*]] = tt.load %p : !tt.ptr<f32>
// CSE-NEXT:    tt.store %q, %[[C]] : !tt.ptr<f32>
// CSE-NEXT:    tt.return
tt.func public @memory(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
  %a = tt.load %p : !tt.ptr<f32>
  %unused = tt.load %q : !tt.ptr<f32>
  %b = arith.addf %a, %a : f32
  tt.store %p, %b : !tt.ptr<f32>
  %c = tt.load %p : !tt.ptr<f32>
  tt.store %q, %c : !tt.ptr<f32>
  tt.return
}
