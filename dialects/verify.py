"""Verification of a module: every op's own rules, SSA dominance (which xDSL does not check), a nesting limit, and what
`verify_program` knows of whole programs.

An error names one op and its location; the module is never printed.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from .errors import LamellaVerifyError
from .verify_program import symbol_table, verify_program

MAX_NESTING = 64
"""Regions within regions. xDSL parses, clones and walks by recursion; about 80 levels exhaust Python's stack."""


def verify(module: ModuleOp) -> None:
    """Check `module` and all it holds. Raises `LamellaVerifyError` for the first op found wrong."""
    ops = list(_walk(module))
    verify_dominance(module)
    symbols = symbol_table(module)
    for op in ops:
        verify_op(op)
    verify_program(module, symbols)


def verify_op(op: Operation) -> None:
    """Check one op without the ops nested in it: blocks, terminators, successors, and the op's own verifier."""
    _verify_successors(op)
    _verify_terminators(op)
    try:
        op.verify_()
    except LamellaVerifyError:
        raise
    except VerifyException as error:
        raise LamellaVerifyError(op, _one_line(error)) from error


def verify_dominance(module: Operation) -> None:
    """Check that every operand is defined where it is used, on every path. O(ops + uses)."""
    for region in module.regions:
        _check_region(region, set())


def _walk(root: Operation) -> Iterator[Operation]:
    """Every op of `root` in order of the text; raises where the nesting passes `MAX_NESTING`. Iterative by purpose."""
    stack: list[Iterator[Operation]] = [iter((root,))]
    while stack:
        op = next(stack[-1], None)
        if op is None:
            stack.pop()
            continue
        yield op
        if op.regions:
            if len(stack) > MAX_NESTING:
                raise LamellaVerifyError(op, f"is nested deeper than {MAX_NESTING} regions")
            stack.append(inner for region in op.regions for block in region.blocks for inner in block.ops)


def _one_line(error: VerifyException) -> str:
    """The message of a verifier on one line, without any op of many lines that it may quote."""
    first, *rest = str(error).strip().splitlines() or ["does not verify"]
    return first[:500] + (" …" if rest or len(first) > 500 else "")


def _verify_successors(op: Operation) -> None:
    if not op.successors:
        return
    block = op.parent
    if block is None or block.parent is None:
        raise LamellaVerifyError(op, "branches to blocks but is in none itself")
    if block.last_op is not op:
        raise LamellaVerifyError(op, "branches to blocks, so it must be the last of its own")
    if any(successor.parent is not block.parent for successor in op.successors):
        raise LamellaVerifyError(op, "branches to a block of another region")


def _verify_terminators(op: Operation) -> None:
    """Each block of `op` ends in a terminator, unless the op says that its single block needs none."""
    for region in op.regions:
        several = region.first_block is not region.last_block
        for block in region.blocks:
            last = block.last_op
            if last is not None and not last.has_trait(IsTerminator):
                if several or not op.has_trait(NoTerminator):
                    raise LamellaVerifyError(last, f"is the last of its block in '{op.name}' but is not a terminator")
            elif last is None and (several or not op.has_trait(NoTerminator)):
                raise LamellaVerifyError(op, "has an empty block, which needs at least a terminator")


def _check_region(region: Region, live: set[SSAValue]) -> None:
    """Check the blocks of `region`; `live` holds the values visible from outside and is left as it was found."""
    entry = region.first_block
    if entry is None:
        return
    children: dict[Block, list[Block]] = {entry: []}
    if entry.next_block is not None:
        children = _dominator_tree(entry)
    stack: list[tuple[Block, list[SSAValue] | None]] = [(entry, None)]
    while stack:
        block, defined = stack.pop()
        if defined is not None:
            live.difference_update(defined)
            continue
        stack.append((block, _check_block(block, live)))
        stack.extend((child, None) for child in children[block])
    for block in region.blocks:
        # No path leads to these: as in MLIR anything of the region dominates there, but it must be of the region.
        if block not in children:
            _check_block(block, live | _defined_in(region))


def _check_block(block: Block, live: set[SSAValue]) -> list[SSAValue]:
    """Check the uses in `block`, add what it defines to `live`, and return that."""
    defined: list[SSAValue] = list(block.args)
    live.update(defined)
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            if operand not in live:
                name = f" (%{operand.name_hint})" if operand.name_hint else ""
                raise LamellaVerifyError(op, f"operand #{index}{name} does not dominate this use")
        for region in op.regions:
            _check_region(region, set() if op.has_trait(IsolatedFromAbove) else live)
        live.update(op.results)
        defined.extend(op.results)
    return defined


def _defined_in(region: Region) -> set[SSAValue]:
    return {value for block in region.blocks for value in (*block.args, *(r for op in block.ops for r in op.results))}


def _successors(block: Block) -> tuple[Block, ...]:
    return tuple(block.last_op.successors) if block.last_op is not None else ()


def _dominator_tree(entry: Block) -> dict[Block, list[Block]]:
    """Children of each reachable block in the dominator tree (Cooper, Harvey and Kennedy, 2001)."""
    order = _post_order(entry)
    number = {block: i for i, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            predecessors[successor].append(block)
    idom: dict[Block, Block] = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [p for p in predecessors[block] if p in idom]
            best = known[0]
            for other in known[1:]:
                best = _intersect(best, other, idom, number)
            if idom.get(block) is not best:
                idom[block] = best
                changed = True
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block in reversed(order[:-1]):
        children[idom[block]].append(block)
    return children


def _intersect(a: Block, b: Block, idom: dict[Block, Block], number: dict[Block, int]) -> Block:
    while a is not b:
        while number[a] < number[b]:
            a = idom[a]
        while number[b] < number[a]:
            b = idom[b]
    return a


def _post_order(entry: Block) -> list[Block]:
    """Blocks reachable from `entry`, `entry` last."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            order.append(block)
            stack.pop()
    return order
