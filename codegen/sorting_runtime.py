"""The functions that order rows of whole numbers: what `loop.sort` calls, as LLVM IR with vectors.

`lamella_sort_i32(ptr, n)` and `lamella_sort_i64(ptr, n)` put n signed numbers in ascending order, in place. The buffer
has `lowering.sorting.room(n)` elements. There is no branch on data: each step takes the smaller and the larger of two
vectors. Blocks of `BLOCK` vectors are sorted by a bitonic network in registers, runs of up to `RUN` by its wider steps
in memory; then pairs of runs are merged, a vector at a time, from one half of the buffer to the other.

Source: K. E. Batcher, Sorting networks and their applications (1968).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ..lowering.sorting import BLOCK, LANES, RUN
from .cache import cached_objects
from .jit import LoadedObject, load_object
from .target import CpuTarget

NAME = "lamella_sort_"


@cache
def sorting(dtype: str) -> LoadedObject:
    """The function for a dtype in this process: compiled where a program first wants it, then in the cache on disk."""
    text = sorting_text(dtype)
    return load_object(cached_objects([text], CpuTarget.host())[0], [f"{NAME}{dtype}"])


def sorting_text(dtype: str) -> str:
    """The function as LLVM IR, for any target."""
    return _Sort(dtype, LANES[dtype]).text()


class _Sort:
    """The function for numbers of type `t`, in vectors of `lanes`."""

    def __init__(self, t: str, lanes: int) -> None:
        self.t, self.lanes, self.v = t, lanes, f"<{lanes} x {t}>"
        self.lines: list[str] = []
        self.names = 0
        self.block = "entry"

    # Text

    def put(self, value: str) -> str:
        """`%name = value`."""
        self.names += 1
        self.lines.append(f"  %{self.names} = {value}".replace("%", "%v", 1))
        return f"%v{self.names}"

    def label(self, name: str) -> None:
        self.block = name
        self.lines.append(f"{name}:")

    def loop(self, start: str, end: str, step: str, body: Callable[[str], None]) -> None:
        """`for i in range(start, end, step): body(i)`."""
        self.names += 1
        n, before = self.names, self.block
        self.lines.append(f"  br label %head{n}")
        self.label(f"head{n}")
        at = len(self.lines)
        self.lines += ["", f"  %more{n} = icmp slt i64 %i{n}, {end}", f"  br i1 %more{n}, label %in{n}, label %out{n}"]
        self.label(f"in{n}")
        body(f"%i{n}")
        self.lines += [f"  %next{n} = add i64 %i{n}, {step}", f"  br label %head{n}"]
        self.lines[at] = f"  %i{n} = phi i64 [ {start}, %{before} ], [ %next{n}, %{self.block} ]"
        self.label(f"out{n}")

    def add(self, a: str, b: str | int) -> str:
        return self.put(f"add i64 {a}, {b}")

    def sub(self, a: str | int, b: str | int) -> str:
        return self.put(f"sub i64 {a}, {b}")

    def shift(self, a: str, by: int) -> str:
        return self.put(f"{'shl' if by > 0 else 'lshr'} i64 {a}, {abs(by)}")

    def least(self, a: str, b: str | int) -> str:
        return self.put(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    # Vectors

    def place(self, base: str, i: str) -> str:
        return self.put(f"getelementptr {self.v}, ptr {base}, i64 {i}")

    def load(self, place: str) -> str:
        return self.put(f"load {self.v}, ptr {place}, align {4 if self.t == 'i32' else 8}")

    def store(self, value: str, place: str) -> None:
        self.lines.append(f"  store {self.v} {value}, ptr {place}, align {4 if self.t == 'i32' else 8}")

    def permuted(self, value: str, lanes: list[int]) -> str:
        mask = ", ".join(f"i32 {k}" for k in lanes)
        return self.put(f"shufflevector {self.v} {value}, {self.v} poison, <{self.lanes} x i32> <{mask}>")

    def reversed(self, value: str) -> str:
        return self.permuted(value, list(range(self.lanes))[::-1])

    def both(self, a: str, b: str) -> tuple[str, str]:
        """The smaller and the larger, lane by lane."""
        small, large = (
            self.put(f"call {self.v} @llvm.{f}.v{self.lanes}{self.t}({self.v} {a}, {self.v} {b})")
            for f in ("smin", "smax")
        )
        return small, large

    def step(self, value: str, mirror: int, bit: int) -> str:
        """Lanes i and i ^ mirror in order; `bit` tells which of the two is to have the smaller."""
        small, large = self.both(value, self.permuted(value, [i ^ mirror for i in range(self.lanes)]))
        mask = ", ".join(f"i1 {int(not i & bit)}" for i in range(self.lanes))
        return self.put(f"select <{self.lanes} x i1> <{mask}>, {self.v} {small}, {self.v} {large}")

    def merged(self, *values: str) -> list[str]:
        """Neighbouring vectors that rise and fall together, sorted."""
        found = list(values)
        apart = len(found) // 2
        while apart:
            for i in range(len(found)):
                if not i & apart:
                    found[i], found[i + apart] = self.both(found[i], found[i + apart])
            apart //= 2
        bit = self.lanes // 2
        while bit:
            found, bit = [self.step(v, bit, bit) for v in found], bit // 2
        return found

    def network(self, first: str, *others: str) -> list[str]:
        """Any neighbouring vectors, sorted."""
        values = (first, *others)
        if others:
            half = len(values) // 2
            low, high = self.network(*values[:half]), self.network(*values[half:])
            return self.joined(low, high)
        size, value = 2, first
        while size <= self.lanes:
            value = self.step(value, size - 1, size // 2)
            bit = size // 4
            while bit:
                value, bit = self.step(value, bit, bit), bit // 2
            size *= 2
        return [value]

    def joined(self, low: list[str], high: list[str]) -> list[str]:
        """Two sorted lists of vectors as one."""
        pairs = [self.both(a, self.reversed(b)) for a, b in zip(low, reversed(high), strict=True)]
        # the larger ones fall where they are mirrored: what rises and falls may be read from either end
        return [*self.merged(*(a for a, _ in pairs)), *self.merged(*(b for _, b in pairs))]

    # Functions

    def text(self) -> str:
        t, v, lanes = self.t, self.v, self.lanes
        declared = [f"declare {v} @llvm.{f}.v{lanes}{t}({v}, {v})" for f in ("smin", "smax")]
        if t == "i32":
            declared.append(
                "declare i64 @llvm.smin.i64(i64, i64)\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
            )
        functions = (self._run(), self._merge(), self._sort())
        return "\n".join((*declared, *functions))

    def function(self, signature: str, body: Callable[[], None]) -> str:
        self.lines, self.names = [], 0
        self.label("entry")
        body()
        return "\n".join((f"define {signature} {{", *self.lines, "}"))

    def _run(self) -> str:
        """Sort a run of `count` vectors, whole blocks. What is behind it counts as large: no length is special."""

        def blocks(change: Callable[..., list[str]]) -> None:
            def each(i: str) -> None:
                places = [self.place("%s", self.add(i, k)) for k in range(BLOCK)]
                for value, place in zip(change(*map(self.load, places)), places, strict=True):
                    self.store(value, place)

            self.loop("0", "%count", str(BLOCK), each)

        def level(log: str) -> None:
            half = self.put(f"shl i64 1, {log}")
            size = self.shift(half, 1)

            def mirror(block: str) -> None:
                """Vectors of the first half of a block with those of the second from its end."""
                last = self.sub(self.add(block, size), 1)
                past = self.sub(last, "%count")
                first = self.put(f"call i64 @llvm.smax.i64(i64 {self.add(past, 1)}, i64 0)")

                def pair(i: str) -> None:
                    low, high = self.place("%s", self.add(block, i)), self.place("%s", self.sub(last, i))
                    a, b = self.both(self.load(low), self.reversed(self.load(high)))
                    self.store(a, low)
                    self.store(self.reversed(b), high)

                self.loop(first, half, "1", pair)

            self.loop("0", "%count", size, mirror)

            def distance(k: str) -> None:
                """Vectors that are 2^(log - k) apart."""
                apart = self.put(f"shl i64 1, {self.sub(log, k)}")

                def block(start: str) -> None:
                    end = self.least(self.add(start, apart), self.sub("%count", apart))

                    def pair(i: str) -> None:
                        low, high = self.place("%s", i), self.place("%s", self.add(i, apart))
                        a, b = self.both(self.load(low), self.load(high))
                        self.store(a, low)
                        self.store(b, high)

                    self.loop(start, end, "1", pair)

                self.loop("0", "%count", self.shift(apart, 1), block)

            self.loop("1", self.sub(log, BLOCK.bit_length() - 2), "1", distance)
            blocks(self.merged)

        def body() -> None:
            blocks(self.network)
            bits = self.put("call i64 @llvm.ctlz.i64(i64 " + self.sub("%count", 1) + ", i1 false)")
            self.loop(str(BLOCK.bit_length() - 1), self.sub(64, bits), "1", level)
            self.lines.append("  ret void")

        return self.function(f"internal void @run_{self.t}(ptr %s, i64 %count)", body)

    def _merge(self) -> str:
        """Merge the runs [a, b) and [b, end), neither of them empty, to `to`; one element at `end` may be read."""

        def body() -> None:
            v = self.v
            first, second = self.load("%a"), self.load("%b")
            a, b = self.place("%a", "1"), self.place("%b", "1")
            low, rest = self.both(first, self.reversed(second))
            self.store(self.merged(low)[0], "%to")
            carry = self.merged(rest)[0]
            self.lines += ["  br label %head"]
            self.label("head")
            at = len(self.lines)
            self.lines += [""]
            done_a = self.put("icmp uge ptr %pa, %b")
            done_b = self.put("icmp uge ptr %pb, %end")
            x, y = (self.put(f"load {self.t}, ptr {p}, align 4") for p in ("%pa", "%pb"))
            less = self.put(f"icmp sle {self.t} {x}, {y}")
            takes = self.put(f"select i1 {done_b}, i1 true, i1 {less}")
            takes = self.put(f"select i1 {done_a}, i1 false, i1 {takes}")
            over = self.put(f"and i1 {done_a}, {done_b}")
            self.lines.append(f"  br i1 {over}, label %done, label %in")
            self.label("in")
            source = self.put(f"select i1 {takes}, ptr %pa, ptr %pb")
            following = self.place(source, "1")
            next_a = self.put(f"select i1 {takes}, ptr {following}, ptr %pa")
            next_b = self.put(f"select i1 {takes}, ptr %pb, ptr {following}")
            low, rest = self.both("%carry", self.reversed(self.load(source)))
            self.store(self.merged(low)[0], "%pt")
            after = self.merged(rest)[0]
            next_t = self.place("%pt", "1")
            self.lines.append("  br label %head")
            start = self.lines.index("  br label %head")
            self.lines.insert(start, f"  %t1 = getelementptr {v}, ptr %to, i64 1")
            at += 1
            self.lines[at] = "\n".join(
                f"  %{n} = phi {t} [ {x}, %entry ], [ {y}, %in ]"
                for n, t, x, y in (
                    ("pa", "ptr", a, next_a), ("pb", "ptr", b, next_b), ("pt", "ptr", "%t1", next_t),
                    ("carry", v, carry, after),
                )
            )  # fmt: skip
            self.label("done")
            self.store("%carry", "%pt")
            self.lines.append("  ret void")

        return self.function(f"internal void @merge_{self.t}(ptr %a, ptr %b, ptr %end, ptr %to)", body)

    def _sort(self) -> str:
        t, lanes, size = self.t, self.lanes, 4 if self.t == "i32" else 8
        largest = (1 << (8 * size - 1)) - 1

        def body() -> None:
            some = self.put("icmp sgt i64 %n, 1")
            self.lines.append(f"  br i1 {some}, label %fill, label %none")
            self.label("none")
            self.lines.append("  ret void")
            self.label("fill")
            log = (lanes * BLOCK).bit_length() - 1
            count = self.shift(self.shift(self.add("%n", lanes * BLOCK - 1), -log), BLOCK.bit_length() - 1)

            def fill(i: str) -> None:
                at = self.put(f"getelementptr {t}, ptr %s, i64 {i}")
                self.store(f"<{', '.join([f'{t} {largest}'] * lanes)}>", at)

            self.loop("%n", self.shift(count, lanes.bit_length() - 1), str(lanes), fill)

            def run(i: str) -> None:
                length = self.least(self.sub(count, i), RUN)
                self.lines.append(f"  call void @run_{t}(ptr {self.place('%s', i)}, i64 {length})")

            self.loop("0", count, str(RUN), run)
            # passes of merges, from one half to the other
            other = self.place("%s", self.add(count, 1))
            before = self.block
            self.lines.append("  br label %pass")
            self.label("pass")
            at = len(self.lines)
            self.lines.append("")
            more = self.put(f"icmp slt i64 %length, {count}")
            self.lines.append(f"  br i1 {more}, label %merges, label %merged")
            self.label("merges")
            twice = self.shift("%length", 1)

            def pair(i: str) -> None:
                middle = self.least(self.add(i, "%length"), count)
                end = self.least(self.add(i, twice), count)
                a, b, e = (self.place("%from", k) for k in (i, middle, end))
                to = self.place("%into", i)
                two = self.put(f"icmp slt i64 {middle}, {end}")
                n = self.names
                self.lines.append(f"  br i1 {two}, label %two{n}, label %one{n}")
                self.label(f"two{n}")
                self.lines += [f"  call void @merge_{t}(ptr {a}, ptr {b}, ptr {e}, ptr {to})", f"  br label %both{n}"]
                self.label(f"one{n}")
                bytes = self.shift(self.sub(end, i), 6)
                self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {a}, i64 {bytes}, i1 false)")
                self.lines.append(f"  br label %both{n}")
                self.label(f"both{n}")

            self.loop("0", count, twice, pair)
            self.lines.append("  br label %pass")
            self.lines[at] = "\n".join(
                f"  %{name} = phi {type} [ {x}, %{before} ], [ {y}, %{self.block} ]"
                for name, type, x, y in (
                    ("length", "i64", RUN, twice), ("from", "ptr", "%s", "%into"), ("into", "ptr", other, "%from"),
                )
            )  # fmt: skip
            self.label("merged")
            there = self.put("icmp eq ptr %from, %s")
            self.lines.append(f"  br i1 {there}, label %none2, label %back")
            self.label("none2")
            self.lines.append("  ret void")
            self.label("back")
            bytes = self.shift("%n", size.bit_length() - 1)
            self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %from, i64 {bytes}, i1 false)")
            self.lines.append("  ret void")

        return self.function(f"void @lamella_sort_{t}(ptr %s, i64 %n)", body)
