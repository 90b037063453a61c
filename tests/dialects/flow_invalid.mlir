// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: each rule of control flow that text can break.

func.func @outside(%p: !sym.t<[], i1>, %x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'then' uses a value from outside (%x): it must be an argument}}
  %0 = flow.if(%p) : (!sym.t<[], i1>) -> !sym.t<[4], f32>
  then () {
    flow.yield(%x) : !sym.t<[4], f32>
  } else () {
    flow.yield(%x) : !sym.t<[4], f32>
  }
  func.return
}

// -----

func.func @condition(%p: !sym.t<[4], i1>) {
  // expected-error@+1 {{the first argument is the condition: a bool tensor of one element, or a truth value}}
  flow.if(%p) : (!sym.t<[4], i1>) -> ()
  then () {
    flow.yield()
  } else () {
    flow.yield()
  }
  func.return
}

// -----

func.func @results(%p: !sym.t<[], i1>, %x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'else' yields 0 values, 1 are expected}}
  %0 = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  then (%a: !sym.t<[4], f32>) {
    flow.yield(%a) : !sym.t<[4], f32>
  } else (%a: !sym.t<[4], f32>) {
    flow.yield()
  }
  func.return
}

// -----

func.func @types(%p: !sym.t<[], i1>, %x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'then' yields !sym.t<[4], f32> as #0, !sym.t<[4], f64> is expected}}
  %0 = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[4], f32>) -> !sym.t<[4], f64>
  then (%a: !sym.t<[4], f32>) {
    flow.yield(%a) : !sym.t<[4], f32>
  } else (%a: !sym.t<[4], f32>) {
    flow.yield(%a) : !sym.t<[4], f32>
  }
  func.return
}

// -----

func.func @arguments(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{argument #0 of 'then' is !sym.t<[5], f32>, given is !sym.t<[4], f32>}}
  flow.if(true, %x) : (!sym.t<[4], f32>) -> ()
  then (%a: !sym.t<[5], f32>) {
    flow.yield()
  } else (%a: !sym.t<[5], f32>) {
    flow.yield()
  }
  func.return
}

// -----

func.func @terminator(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'then' is one block that ends with flow.yield}}
  flow.if(true) : () -> ()
  then () {
    func.return
  } else () {
    flow.yield()
  }
  func.return
}

// -----

func.func @test(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'while' yields one truth value, or a bool tensor of one element}}
  %0 = flow.while(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  while (%a: !sym.t<[4], f32>) {
    flow.yield(1)
  } do (%a: !sym.t<[4], f32>) {
    flow.yield(%a) : !sym.t<[4], f32>
  }
  func.return
}

// -----

func.func @slices(%x: !sym.t<[4, 2], f32>, %y: !sym.t<[3, 2], f32>) {
  // expected-error@+1 {{goes over 3 and 4 slices}}
  flow.scan(%x, %y) carried 0 over 2 : (!sym.t<[4, 2], f32>, !sym.t<[3, 2], f32>) -> ()
  do (%a: !sym.t<[2], f32>, %b: !sym.t<[2], f32>) {
    flow.yield()
  }
  func.return
}

// -----

func.func @sizes(%x: !sym.t<[4], f32>) {
  %0 = flow.if(true, %x) : (!sym.t<[4], f32>) -> !sym.t<[u0], i64>
  then (%a: !sym.t<[4], f32>) {
    %1 = aten.nonzero(%a) : (!sym.t<[4], f32>) -> !sym.t<[u1, 1], i64>
    %2 = aten.view(%1, [u1]) : (!sym.t<[u1, 1], i64>) -> !sym.t<[u1], i64>
    flow.yield(%2) : !sym.t<[u1], i64>
  } else (%a: !sym.t<[4], f32>) {
    // expected-error@+1 {{uses the size u1, which nothing above gives}}
    %1 = aten.mul.Scalar(%a, u1) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
    %2 = aten.nonzero(%1) : (!sym.t<[4], f32>) -> !sym.t<[u2, 1], i64>
    %3 = aten.view(%2, [u2]) : (!sym.t<[u2, 1], i64>) -> !sym.t<[u2], i64>
    flow.yield(%3) : !sym.t<[u2], i64>
  }
  func.return
}

// -----

func.func @nothing_to_call(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{there is no function @absent}}
  %0 = flow.call(%x) callee @absent : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return
}

// -----

func.func @of_another_type(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{@f is a (!sym.t<[5], f32>) -> !sym.t<[5], f32>}}
  %0 = flow.call(%x) callee @f : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return
}
func.func private @f(%x: !sym.t<[5], f32>) -> !sym.t<[5], f32> {
  func.return %x : !sym.t<[5], f32>
}

// -----

func.func @stack_of_another_size(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{'do' yields !sym.t<[], f32> as #0, !sym.t<[4], f32> is expected}}
  %0 = flow.while_stack(%x) : (!sym.t<[4], f32>) -> !sym.t<[u0, 4], f32>
  while (%a: !sym.t<[4], f32>) {
    flow.yield(false)
  } do (%a: !sym.t<[4], f32>) {
    %1 = aten.sum(%a) : (!sym.t<[4], f32>) -> !sym.t<[], f32>
    flow.yield(%1) : !sym.t<[], f32>
  }
  func.return
}

// -----

func.func @stack_of_numbers(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{what is stacked is a tensor}}
  %0 = flow.while_stack(3) : () -> !sym.t<[u0], i64>
  while (%a: !sym.int<u1>) {
    flow.yield(false)
  } do (%a: !sym.int<u1>) {
    flow.yield(u1 + 1)
  }
  func.return
}

// -----

func.func @stacks_of_two_lengths(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{stacks as many slices for each result}}
  %0, %2 = flow.while_stack(%x, %x) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> (!sym.t<[u0, 4], f32>, !sym.t<[u1, 4], f32>)
  while (%a: !sym.t<[4], f32>, %b: !sym.t<[4], f32>) {
    flow.yield(false)
  } do (%a: !sym.t<[4], f32>, %b: !sym.t<[4], f32>) {
    flow.yield(%a, %b) : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  func.return
}
