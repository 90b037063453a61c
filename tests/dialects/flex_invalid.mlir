// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: each rule of attention with regions that text can break.

func.func @arguments(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{takes query, key, value, a scale and 1 tensors, not 4 arguments}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 1 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @rank(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{key has four dims of floats, but is !sym.t<[2, 8, 16], f32>}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @integers(%q: !sym.t<[2, 4, 8, 16], i64>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{query has four dims of floats, but is !sym.t<[2, 4, 8, 16], i64>}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], i64>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @scale(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{the scale is a number, not True}}
  %out, %lse, %max = flex.attention(%q, %k, %v, true) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @counted(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{what is counted is a tensor, but #0 is 3}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25, 3) blocks 1 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @keys(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 9, 16], f32>) {
  // expected-error@+1 {{keys are [2, 2, 8], but values [2, 2, 9]}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 9, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @size(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 24], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{a query has 16 numbers, a key 24}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 24], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @batch(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[3, 2, 8, 16], f32>, %v: !sym.t<[3, 2, 8, 16], f32>) {
  // expected-error@+1 {{2 batches of queries cannot share 3 of keys}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[3, 2, 8, 16], f32>, !sym.t<[3, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @heads(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 3, 8, 16], f32>, %v: !sym.t<[2, 3, 8, 16], f32>) {
  // expected-error@+1 {{4 heads of queries cannot share 3 of keys}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 3, 8, 16], f32>, !sym.t<[2, 3, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @scores(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{argument #0 of 'score_mod' is !sym.t<[2, 4, 8, 8], bf16>, given is !sym.t<[2, 4, 8, 8], f32>}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], bf16>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], bf16>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @numbers(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{argument #2 of 'score_mod' is !sym.t<[2], i64>, given is !sym.t<[4], i64>}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[2], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @yield(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{'score_mod' yields !sym.t<[2], i64> as #0, !sym.t<[2, 4, 8, 8], i64> is expected}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%b) : !sym.t<[2], i64>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @mask(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{'mask_mod' yields !sym.t<[2, 4, 8, 8], f32> as #0, !sym.t<[2, 4, 8, 8], i1> is expected}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = f32) : () -> !sym.t<[2, 4, 8, 8], f32>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], f32>
  }
  func.return
}

// -----

func.func @out(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{out is !sym.t<[2, 4, 8, 16], bf16>, !sym.t<[2, 4, 8, 16], f32> is expected}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], bf16>, !sym.t<[2, 4, 8], f32>, !sym.t<[2, 4, 8], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}

// -----

func.func @rows(%q: !sym.t<[2, 4, 8, 16], f32>, %k: !sym.t<[2, 2, 8, 16], f32>, %v: !sym.t<[2, 2, 8, 16], f32>) {
  // expected-error@+1 {{logsumexp is !sym.t<[2, 4], f32>, !sym.t<[2, 4, 8], f32> is expected}}
  %out, %lse, %max = flex.attention(%q, %k, %v, 0.25) blocks 0 score 0 mask 0 : (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>, !sym.t<[2, 2, 8, 16], f32>) -> (!sym.t<[2, 4, 8, 16], f32>, !sym.t<[2, 4], f32>, !sym.t<[2, 4], f32>)
  score_mod (%s: !sym.t<[2, 4, 8, 8], f32>, %b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    flow.yield(%s) : !sym.t<[2, 4, 8, 8], f32>
  } mask_mod (%b: !sym.t<[2], i64>, %h: !sym.t<[4], i64>, %i: !sym.t<[8], i64>, %j: !sym.t<[8], i64>) {
    %0 = aten.ones([2, 4, 8, 8], dtype = i1) : () -> !sym.t<[2, 4, 8, 8], i1>
    flow.yield(%0) : !sym.t<[2, 4, 8, 8], i1>
  }
  func.return
}
