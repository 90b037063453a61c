"""`lamella`: the command line. `lamella opt` and `lamella run` are lamella-opt and lamella-run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..dialects.user_error import LamellaError
from .source import Arguments, boundary, reason

if TYPE_CHECKING:
    from ..codegen.cache import Cache


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 for a user's error or a damaged cache, 2 for a bug of ours."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["opt"]:
        from .opt import main as opt

        return opt(argv[1:])
    if argv[:1] == ["run"]:
        from .run import main as run

        return run(argv[1:])

    def run() -> int:
        try:
            arguments = _parser().parse_args(argv or ["--help"])
        except SystemExit:  # help has been shown; an error is raised as a LamellaError
            return 0
        return _target() if arguments.command == "target" else _cache(arguments.action)

    return boundary("lamella", run, sys.stdout, sys.stderr, debug=False)


def _parser() -> argparse.ArgumentParser:
    parser = Arguments("lamella", description="A PyTorch compiler that can be read.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("opt", help="run passes over a module (lamella-opt)", add_help=False)
    commands.add_parser("run", help="execute a module (lamella-run)", add_help=False)
    about = "The cache on disk: the folder that LAMELLA_CACHE_DIR names, else one under ~/.cache."
    cache = commands.add_parser("cache", help="the cache on disk", description=about)
    actions = "show: entries and bytes of each kind; verify: remove what is damaged; clear: remove all (default: show)"
    cache.add_argument("action", choices=tuple(_ACTIONS), nargs="?", default="show", help=actions)
    commands.add_parser("target", help="what is known of this machine")
    return parser


def _cache(action: str) -> int:
    from ..codegen.cache import default_cache

    cache = default_cache()
    try:
        return _ACTIONS[action](cache) if _is_there(cache) else 0
    except OSError as error:
        inside = error.filename not in (None, str(cache.directory))
        at = f" at {error.filename}" if inside else "; LAMELLA_CACHE_DIR says which folder it is"
        raise LamellaError(f"the cache in {cache.directory}: {reason(error)}{at}") from None


def _is_there(cache: Cache) -> bool:
    """Whether there is something at the place of the cache, which is said where not. Raises OSError."""
    try:
        cache.directory.stat()
    except FileNotFoundError:
        print(f"{cache.directory}: no such folder, so there is nothing in it; LAMELLA_CACHE_DIR says which one it is")
        return False
    return True


def _show(cache: Cache) -> int:
    stats = cache.stats()
    print(f"{stats.directory}: {sum(stats.bytes.values()) / 2**20:.1f} of {stats.limit / 2**20:.0f} MiB")
    for kind, count in sorted(stats.entries.items()):
        print(f"  {kind:8} {count:6} entries {stats.bytes[kind] / 2**20:9.1f} MiB")
    return 0


def _verify(cache: Cache) -> int:
    damaged = cache.verify()
    for path in damaged:
        print(f"damaged, removed: {path}")
    print(f"{len(damaged)} damaged entries in {cache.directory}")
    return 1 if damaged else 0


def _clear(cache: Cache) -> int:
    print(f"removed {cache.clear()} entries from {cache.directory}")
    return 0


_ACTIONS: dict[str, Callable[[Cache], int]] = {"show": _show, "verify": _verify, "clear": _clear}


def _target() -> int:
    from dataclasses import asdict

    from ..codegen.target import CpuTarget

    for name, value in asdict(CpuTarget.host()).items():
        print(f"{name:16} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
