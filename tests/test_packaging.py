"""The package holds every module of the repository, and importing it costs nothing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def tracked_modules() -> set[str]:
    """Python files of the package: those at the root and in folders with an `__init__.py`."""
    folders = [ROOT, *(p.parent for p in ROOT.glob("*/__init__.py"))]
    return {str(path.relative_to(ROOT)) for folder in folders for path in folder.glob("*.py")}


def test_package_list_equals_the_folders() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    present = {p.parent.relative_to(ROOT) for p in ROOT.rglob("__init__.py") if not ignored(p)}
    assert sorted(configured) == sorted(".".join(["lamella", *path.parts]) for path in present)


def ignored(path: Path) -> bool:
    """Whether `path` is not part of the source: a virtual environment, a build, a link to the root."""
    parts = path.relative_to(ROOT).parts
    return parts[0] in ("build", "dist", "venv") or any(part.startswith(".") for part in parts)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel built from a copy of the source, so that no build folder is left in it."""
    source = tmp_path_factory.mktemp("source")
    for name in [*tracked_modules(), "pyproject.toml", "README.md", "LICENSE"]:
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    build = "import setuptools.build_meta as b; print(b.build_wheel('dist'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(source / "dist" / done.stdout.split()[-1])


def test_wheel_holds_every_module(wheel: zipfile.ZipFile) -> None:
    built = {name.removeprefix("lamella/") for name in wheel.namelist() if name.endswith(".py")}
    assert built == tracked_modules()


def test_wheel_offers_the_backend_and_the_tools(wheel: zipfile.ZipFile) -> None:
    name = next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    entry_points = wheel.read(name).decode()
    assert "[torch_dynamo_backends]" in entry_points
    assert "lamella-opt = lamella.tools.opt:main" in entry_points


def test_import_is_lazy() -> None:
    """`torch.compile(backend="lamella")` imports the package in every process, so the package imports nothing itself."""
    code = "import sys, lamella; print([m for m in ('torch', 'xdsl', 'sympy', 'llvmlite') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_entry_points_are_importable() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    for target in scripts.values():
        module, _, _ = target.partition(":")
        assert (ROOT / Path(*module.split(".")[1:])).with_suffix(".py").exists(), f"{target} does not exist"
