// RUN: lamella-opt %s --split-input-file --verify-diagnostics
// What is checked: each rule of the host ops that text can break.

host.func @offset(%x: !sym.t<[4], f32>) {
  %a = host.arena [256]
  // expected-error@+1 {{offset 32 is not a multiple of 64}}
  %b = host.slot %a [32] : !sym.t<[4], f32>
  host.return
}

// -----

host.func @two_offsets(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{offset is one expression in brackets, got [0, 1]}}
  %b = host.view %x [0, 1] : !sym.t<[4], f32> -> !sym.t<[4], f32>
  host.return
}

// -----

host.func @dtype(%x: !sym.t<[4], f32>) {
  // expected-error@+1 {{a view keeps dtype and device: [4], f32 -> [4], i32}}
  %b = host.view %x [0] : !sym.t<[4], f32> -> !sym.t<[4], i32>
  host.return
}

// -----

// expected-error@+1 {{host.return gives (), the function type says (!sym.t<[4], f32>)}}
host.func @result(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  host.return
}

// -----

host.func @only_launches() {
  // expected-error@+1 {{holds launches only, not host.empty}}
  host.together {
    %a = host.empty : !sym.t<[4], f32>
  }
  host.return
}

// -----

host.func @no_arguments() {
  // expected-error@+1 {{takes no arguments}}
  host.together {
  ^bb0(%a: !sym.t<[4], f32>):
  }
  host.return
}

// -----

host.func @over(%x: !sym.t<[4], f32>) {
  %a = host.empty over(%x : !sym.t<[4], f32>) : !sym.t<[4], f32>
  // expected-error@+1 {{lies over an argument, not over what the program has made}}
  %b = host.empty over(%a : !sym.t<[4], f32>) : !sym.t<[4], f32>
  host.return
}
