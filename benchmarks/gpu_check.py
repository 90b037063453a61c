"""Whether compiled code is right on this machine's GPU, and what it costs: many small checks and a short table last.

    python benchmarks/gpu_check.py [--only REGEX] [--groups kernels,models] [--wheels FOLDER] [--inductor]

Needs torch with CUDA and Triton; of other packages, pure wheels in FOLDER (default `wheels` beside this repository's
files) are unpacked and used. Checks run in processes of their own, a fresh one after each that ends the process or
spoils the GPU's context. With OUT in the environment, a log and the figures as JSON are left in that folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def make_importable(folder: Path, wheels: Path) -> dict[str, str]:
    """The environment in which `lamella` and what the wheels hold can be imported, unless they can be already."""
    (folder / "lamella").symlink_to(ROOT)
    for wheel in sorted(wheels.glob("*.whl")) if wheels.is_dir() else []:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LAMELLA_CACHE_DIR": str(folder / "cache")}


def child(names: list[str], arguments: argparse.Namespace) -> None:
    """Runs checks and writes a line of JSON about each; stops after one that spoils the GPU's context."""
    from gpu_cases import CHECKS, Skip, sound

    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**line: Any) -> None:
        said.write(json.dumps(line) + "\n")
        said.flush()

    for name in names:
        tell(name=name, status="started")
        start = time.perf_counter()
        try:
            detail = CHECKS[name].run(arguments)
            status = "ok"
        except Skip as reason:
            status, detail = "skipped", str(reason)
        except BaseException as error:
            traceback.print_exc()
            status = "WRONG" if isinstance(error, AssertionError) else "ERROR"
            text = str(error).strip() or type(error).__name__
            first = next((line for line in text.splitlines() if line.strip()), text)
            detail = f"{type(error).__name__}: {first}"[:160]
        tell(name=name, status=status, detail=detail, seconds=round(time.perf_counter() - start, 2))
        if status in ("WRONG", "ERROR") and not sound():
            tell(name=name, status="spoiled")
            return


def run_checks(names: list[str], environment: dict[str, str], log: Any, arguments: argparse.Namespace) -> list[Any]:
    """The results of all checks, in order, from as many processes as it takes."""
    results: list[dict[str, Any]] = []
    waiting = list(names)
    while waiting:
        command = [sys.executable, __file__, *sys.argv[1:], "--child", json.dumps(waiting)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True, bufsize=1)
        assert process.stdout is not None
        current, ended = "", "ended"
        while True:
            if not select.select([process.stdout], [], [], arguments.seconds)[0]:
                process.kill()
                ended = f"no answer for {arguments.seconds:g} s"
                break
            line = process.stdout.readline()
            if not line:
                break
            found = json.loads(line)
            if found["status"] == "started":
                current = found["name"]
            elif found["status"] == "spoiled":
                ended = ""
                break
            else:
                results.append(found)
                waiting.remove(found["name"])
                current = ""
                print(row(found), flush=True)
        process.wait()
        if current:
            lost = {"name": current, "status": "DIED", "detail": f"{ended}, exit status {process.returncode}"}
            results.append(lost)
            waiting.remove(current)
            print(row(lost), flush=True)
        elif waiting and process.returncode not in (0, None) and ended:
            lost = {"name": waiting[0], "status": "DIED", "detail": f"exit status {process.returncode}"}
            results.append(lost)
            waiting.pop(0)
            print(row(lost), flush=True)
    return results


def row(result: dict[str, Any]) -> str:
    seconds = f"{result['seconds']:6.1f} s" if "seconds" in result else ""
    return f"{result['status']:8}{result['name']:44}{seconds:10} {result.get('detail') or ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression that names must match")
    parser.add_argument("--groups", default="", help="the groups to run, by comma")
    parser.add_argument("--wheels", type=Path, default=ROOT / "wheels")
    parser.add_argument("--inductor", action="store_true", help="time TorchInductor too")
    parser.add_argument("--seconds", type=float, default=120, help="that one check may take")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(json.loads(arguments.child), arguments)
        return
    out = Path(os.environ.get("OUT") or tempfile.mkdtemp(prefix="gpu_check-"))
    with tempfile.TemporaryDirectory() as folder, (out / "gpu_check.log").open("w") as log:
        environment = make_importable(Path(folder), arguments.wheels)
        command = [sys.executable, "-c", "import gpu_cases; gpu_cases.list_checks()"]
        listed = subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parent, check=False
        )
        if listed.returncode:
            print(listed.stderr[-2000:])
            sys.exit("the checks cannot be imported")
        header, *checks = listed.stdout.splitlines()
        print(header)
        groups = set(filter(None, arguments.groups.split(",")))
        names = [n for n in checks if re.search(arguments.only, n) and (not groups or n.partition("/")[0] in groups)]
        if arguments.list:
            print("\n".join(names))
            return
        start = time.perf_counter()
        results = run_checks(names, environment, log, arguments)
    bad = [r for r in results if r["status"] not in ("ok", "skipped")]
    print("=" * 100)
    for result in results:
        if result["name"].startswith(("cost/", "speed/")) and result["status"] == "ok":
            print(row(result))
    for result in bad:
        print(row(result))
    counts = {s: sum(r["status"] == s for r in results) for s in ("ok", "WRONG", "ERROR", "DIED", "skipped")}
    print(", ".join(f"{n} {s}" for s, n in counts.items()), f"in {time.perf_counter() - start:.0f} s; log in {out}")
    (out / "gpu_check.json").write_text(json.dumps({"header": header, "results": results}, indent=1))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
