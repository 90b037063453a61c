"""Programs of two processes on the CPU: those of benchmarks/distributed.py, which runs them on GPUs too."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "distributed.py"

FEW = ("data_parallel_outside", "tensor_parallel", "distributed_tensors", "collectives")


def answers(*arguments: str) -> dict[str, str]:
    """What is said of each case."""
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    said = {name: answer for name, _, answer in (line.partition(": ") for line in done.stdout.splitlines())}
    wrong = {name: answer for name, answer in said.items() if answer != "right" and not answer.startswith("skipped")}
    assert not wrong and done.returncode == 0, done.stderr[-4000:]
    return said


def test_programs_of_two_processes() -> None:
    """Data parallel training, for which TorchDynamo cuts graphs at buckets, tensor parallel, DTensors, collectives."""
    assert answers("--only", f"^({'|'.join(FEW)})$") == dict.fromkeys(FEW, "right")


@pytest.mark.slow
def test_all_programs_of_two_processes() -> None:
    assert {*FEW, "fully_sharded", "whole_step"} <= answers().keys()
