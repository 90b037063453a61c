// RUN: lamella-opt %s -p 'cse,dce' | filecheck %s
// RUN: lamella-opt %s --generic --print-locations | lamella-opt --print-locations - | filecheck %s --check-prefix=SAME
// RUN: not lamella-opt %s -p 'no-such-pass' 2>&1 | filecheck %s --check-prefix=ERR

// CHECK-LABEL: func.func @f
// CHECK-NEXT:    %[[C:.*]] = arith.constant 1 : i32
// CHECK-NEXT:    %[[S:.*]] = arith.addi %[[C]], %[[C]] : i32
// CHECK-NEXT:    func.return %[[S]] : i32

// SAME: arith.addi %{{.*}}, %{{.*}} : i32 loc("model.py":3:4)

// ERR: lamella-opt: error: unknown pass 'no-such-pass'; the passes are aten-canonicalize,
func.func @f() -> i32 {
  %a = arith.constant 1 : i32
  %b = arith.constant 1 : i32
  %c = arith.addi %a, %b : i32 loc("model.py":3:4)
  func.return %c : i32
}
