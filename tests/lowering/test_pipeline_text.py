"""Pipeline text to passes and back, and what a user sees for each mistake in it."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lamella.dialects.errors import LamellaError
from lamella.lowering import registry
from lamella.lowering.pipeline_text import (
    PipelineError,
    describe_pass,
    parse_passes,
    pipeline_for,
    pipeline_text,
    pipeline_to,
)
from lamella.lowering.registry import LEVELS, PASSES, TARGETS


@dataclass(frozen=True)
class Sample(ModulePass):
    """Do nothing, with options.

    The second line is not shown.
    """

    name = "sample"
    count: int = 1
    ratio: float = 0.5
    verbose: bool = False
    title: str = "x"
    sizes: tuple[int, ...] = (1, 2)
    order: tuple[str, ...] = ()
    limit: int | None = None
    mode: Literal["fast", "small"] = "fast"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["applied"] = 1


@dataclass(frozen=True)
class Needs(ModulePass):
    """Needs its option, and a positive one."""

    name = "needs"
    size: int

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise ValueError(f"size must be positive, got {self.size}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise AssertionError("not run here")


@pytest.fixture(autouse=True)
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {"sample": Sample, "needs": Needs}
    monkeypatch.setattr(registry, "PASSES", PASSES)
    for name in classes:
        monkeypatch.setitem(PASSES, name, f"{__name__}:{classes[name].__name__}")
    monkeypatch.setattr("lamella.lowering.pipeline_text.load_pass", lambda n: classes.get(n) or registry.load_pass(n))


READ = {
    "": (),
    "sample": (Sample(),),
    " sample , sample ": (Sample(), Sample()),
    "sample{}": (Sample(),),
    "sample{count=-3 ratio=1e-3 verbose}": (Sample(count=-3, ratio=1e-3, verbose=True),),
    "sample{verbose=false ratio=2}": (Sample(ratio=2.0),),
    "sample{ sizes=4,5,6   order=a,b-c }": (Sample(sizes=(4, 5, 6), order=("a", "b-c")),),
    "sample{sizes}": (Sample(sizes=()),),
    "sample{limit=7},sample{limit=none}": (Sample(limit=7), Sample()),
    'sample{title="two words, {and} \\"=\\""}': (Sample(title='two words, {and} "="'),),
    "sample{mode=small}": (Sample(mode="small"),),
    "needs{size=2},\n  sample": (Needs(2), Sample()),
}


@pytest.mark.parametrize(("text", "passes"), READ.items(), ids=list(READ))
def test_reads(text: str, passes: tuple[ModulePass, ...]) -> None:
    assert parse_passes(text) == passes
    assert parse_passes(pipeline_text(passes)) == passes


@given(
    st.builds(
        Sample,
        count=st.integers(),
        ratio=st.floats(allow_nan=False),
        verbose=st.booleans(),
        title=st.text(min_size=1),
        sizes=st.lists(st.integers(-9, 9)).map(tuple),
        order=st.lists(st.text(string.printable, min_size=1)).map(tuple),
        limit=st.none() | st.integers(),
        mode=st.sampled_from(["fast", "small"]),
    )
)
def test_text_of_a_pass_reads_back(p: Sample) -> None:
    assert parse_passes(pipeline_text([p, p])) == (p, p)


WRONG = {
    "sampel": "unknown pass 'sampel'; did you mean sample?",
    "zzz": "unknown pass 'zzz'; the passes are aten-canonicalize, ",
    "sample{cout=1}": "pass 'sample' has no option 'cout'; did you mean 'count'? (its options are count: int, ratio: ",
    "cse{x=1}": "pass 'cse' has no option 'x' (it has none)",
    "sample{count=many}": "option 'count' of pass 'sample' takes int, got 'many'",
    "sample{count=1.5}": "option 'count' of pass 'sample' takes int, got '1.5'",
    "sample{count=1,2}": "option 'count' of pass 'sample' takes int, got '1,2'",
    "sample{count}": "option 'count' of pass 'sample' takes int, got no value",
    "sample{verbose=yes}": "option 'verbose' of pass 'sample' takes bool, got 'yes'",
    "sample{sizes=1,b}": "option 'sizes' of pass 'sample' takes int,..., got '1,b'",
    "sample{limit=x}": "option 'limit' of pass 'sample' takes int or none, got 'x'",
    "sample{mode=slow}": "option 'mode' of pass 'sample' takes fast|small, got 'slow'",
    "sample{statistics=1}": "pass 'sample' has no option 'statistics'",
    "needs": "pass 'needs' needs a value for size",
    "needs{size=0}": "pass 'needs': size must be positive, got 0",
    "loop{x=1}": "'loop' is a level, which takes no options: name its passes instead",
    "sample{count=1": "expected an option or '}' in the pipeline\n  sample{count=1\n                ^",
    "sample{count=}": "expected a value in the pipeline\n  sample{count=}\n               ^",
    "sample{count=1 count=2}": "option 'count' is given twice in the pipeline",
    "sample sample": "expected ',' or '{' in the pipeline\n  sample sample\n         ^",
    "sample,": "expected the name of a pass in the pipeline\n  sample,\n         ^",
    ",sample": "expected the name of a pass",
    'sample{title="open': "unterminated string in the pipeline",
    "sample}": "expected ',' or '{' in the pipeline",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=list(WRONG))
def test_mistake_gets_one_message(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_passes(text)
    assert str(caught.value).startswith(message)


@given(st.text(alphabet='abcsample{}=,-" \\\n0123456789\x00é', max_size=40))
def test_any_text_reads_or_is_an_error_for_the_user(text: str) -> None:
    try:
        parse_passes(text)
    except LamellaError as error:
        assert str(error)


def test_levels_and_targets() -> None:
    with pytest.raises(
        PipelineError, match="unknown level 'moon'; the levels are aten, prims, loop, kernel, host, tt, llvm"
    ):
        pipeline_to("moon")
    with pytest.raises(PipelineError, match="unknown target 'gpu'; the targets are cpu"):
        pipeline_for("gpu")
    assert all(level in LEVELS for level in TARGETS.values())


@pytest.mark.parametrize("level", LEVELS)
def test_level_is_a_prefix_of_the_next(level: str) -> None:
    names = [p.name for p in pipeline_to(level)]
    whole = [p.name for p in pipeline_for("cpu")]
    assert names == whole[: len(names)]
    assert parse_passes(level) == pipeline_to(level)


@pytest.mark.parametrize("name", [name for name in PASSES])
def test_pass_of_the_table_has_its_name_and_says_what_it_does(name: str) -> None:
    cls = registry.load_pass(name)
    assert cls.name == name
    assert describe_pass(name).splitlines()[0].startswith(f"{name}: ")


def test_description_lists_options_with_types_and_defaults() -> None:
    assert describe_pass("sample") == "\n".join(
        [
            "sample: Do nothing, with options.",
            "    count: int = 1",
            "    ratio: float = 0.5",
            "    verbose: bool = false",
            "    title: str = x",
            "    sizes: int,... = 1,2",
            "    order: str,... = (empty)",
            "    limit: int or none = none",
            "    mode: fast|small = fast",
        ]
    )
    assert describe_pass("needs").endswith("    size: int, required")
