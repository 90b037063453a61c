"""What is checked: text that Triton's own front end makes is read, printed in both forms, and Triton reads it as before.

Machine code of our text is that of Triton's, instruction by instruction.
"""

import io
import json
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lamella.codegen import triton_compile
from lamella.codegen.cache import Cache
from lamella.codegen.triton_compile import KernelSource, compile_kernels
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.tt import FuncOp
from lamella.dialects.tt_text import kernel_text
from lamella.dialects.verify import verify
from lamella.tools import opt

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")

REFERENCE = Path(__file__).with_name("triton_reference.py")
OPS = Path(__file__).parents[1] / "dialects" / "tt.mlir"
KNOWN_LOCATIONS = ("matmul.raw", "scaled.raw", "tma.raw")
"""Those in which no location is unknown: Triton gives such ops a place in the file that it reads."""


def _reference(*arguments: str) -> str:
    done = subprocess.run([sys.executable, REFERENCE, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Text by name, of all that `triton_reference.py` writes."""
    folder = tmp_path_factory.mktemp("ttir")
    _reference("write", str(folder))
    return {path.name.removesuffix(".ttir"): path.read_text() for path in sorted(folder.iterdir())}


def _read_by_triton(folder: Path, texts: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What Triton prints of each text, without and with locations."""
    paths = {name: folder / f"{name}.ttir" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    found = json.loads(_reference("read", *map(str, paths.values())))
    return {name: found[str(path)] for name, path in paths.items()}


def _forms(text: str) -> dict[str, str]:
    module = parse_module(text)
    verify(module)
    return {
        "theirs": text,
        "pretty": print_module(module),
        "generic": print_module(module, generic=True),
        "located": print_module(module, locations=True),
        "both": print_module(module, locations=True, generic=True),
    }


def test_triton_reads_our_text_as_its_own(written: dict[str, str], tmp_path: Path) -> None:
    texts = {f"{name}.{form}": text for name, kernel in written.items() for form, text in _forms(kernel).items()}
    found = _read_by_triton(tmp_path, texts)
    for name in written:
        theirs = found[f"{name}.theirs"]
        for form in ("pretty", "generic", "located", "both"):
            assert found[f"{name}.{form}"][0] == theirs[0], (name, form)
        if name in KNOWN_LOCATIONS:
            assert found[f"{name}.located"][1] == found[f"{name}.both"][1] == theirs[1], name


def test_triton_drops_no_property(written: dict[str, str], tmp_path: Path) -> None:
    """Triton ignores properties that it does not know: what it prints has to hold all that we wrote."""
    texts = {name: print_module(parse_module(text), generic=True) for name, text in written.items()}
    texts["ops"] = print_module(parse_module(OPS.read_text()), generic=True)
    for name, (read, _) in _read_by_triton(tmp_path, texts).items():
        again = print_module(parse_module(read), generic=True)
        assert _properties(again) == _properties(texts[name]), name


def _properties(text: str) -> list[tuple[str, dict[str, str]]]:
    """Each op with its properties, by name, as text."""
    return [
        (op.name, {name: str(value) for name, value in sorted(op.properties.items())})
        for op in parse_module(text).walk()
        if op.name != "builtin.module"
    ]


def test_lamella_opt(written: dict[str, str], tmp_path: Path) -> None:
    """It takes files of Triton's, cleans them up, and Triton takes what it prints."""
    texts: dict[str, str] = {}
    for name in ("tma", "variety.raw"):
        file = tmp_path / f"{name}.in.ttir"
        file.write_text(written[name])
        for option in ("--generic", "--print-locations"):
            out, err = io.StringIO(), io.StringIO()
            assert opt.main([str(file), "-p", "canonicalize,cse,dce", option], None, out, err) == 0, err.getvalue()
            texts[name + option] = out.getvalue()
    found = _read_by_triton(tmp_path, texts)
    for name in ("tma", "variety.raw"):
        assert found[f"{name}--generic"][0] == found[f"{name}--print-locations"][0]


@pytest.mark.parametrize("name", ["softmax", "matmul", "layer_norm", "tma", "variety"])
def test_same_machine_code(written: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # only a text as we print it is made to wait for the launch before
    monkeypatch.setattr(triton_compile, "OVERLAP", 1000)
    module = parse_module(written[name])
    kernel = next(op for op in module.ops if isinstance(op, FuncOp))
    sources = [KernelSource(name, text) for text in (written[name], kernel_text(kernel))]
    theirs, ours = compile_kernels(sources, 90, cache=Cache(tmp_path, 1 << 30))
    assert ours.shared == theirs.shared
    assert _code(ours.cubin) == _code(theirs.cubin)


def _code(cubin: bytes) -> dict[str, tuple[int, bytes]]:
    """By function: registers of a thread, and instructions. The format is ELF; registers are the top byte of sh_info."""
    start, size, count, names_at = struct.unpack_from("<Q10xHHH", cubin, 0x28)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * size) for i in range(count)]
    names = headers[names_at][4]
    found: dict[str, tuple[int, bytes]] = {}
    for name, _, _, _, offset, length, _, info, _, _ in headers:
        title = cubin[names + name : cubin.index(b"\0", names + name)].decode()
        if title.startswith(".text."):
            found[title] = (info >> 24, cubin[offset : offset + length])
    assert found
    return found
