"""The whole check of a checkout: ruff, mypy --strict, then the suite (with the architecture tests in it).

Owns the order and the exit status: every step runs, any step that fails fails the whole, and pytest comes last, so that
its closing line ends the output. Leaves installing to the README's Test line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PROCESSES = str(min(4, 2 * (os.cpu_count() or 1)))
STEPS = (
    ("ruff", ("-m", "ruff", "check", "--quiet", ".")),
    ("types", ("-m", "mypy", "--strict", "--no-error-summary")),
    # Two processes per core, since many tests wait for a terminal; the tests of one file share what they set up.
    # Their order is `tests/conftest.py`'s: what takes long begins first.
    ("suite", ("-m", "pytest", "-n", PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder")),
)


COLLECT = ("-m", "pytest", "--collect-only", "--quiet", "--quiet")
"""Compiles every test beside the first steps, which leave a core idle: else each process of the suite would do it."""


def main(arguments: list[str]) -> int:
    """Run every step with this interpreter; `arguments` go to pytest. Returns 1 when any of them failed."""
    failed: list[str] = []
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    nothing = subprocess.DEVNULL
    ahead = subprocess.Popen([sys.executable, *COLLECT], cwd=ROOT, stdin=nothing, stdout=nothing, stderr=nothing)
    for name, step in STEPS:
        print(f"== {name}{', after a failure of ' + ' and '.join(failed) if failed else ''}", flush=True)
        extra = arguments if name == "suite" else []
        if name == "suite":
            ahead.wait()
        done = subprocess.run([sys.executable, *step, *extra], cwd=ROOT, stdin=subprocess.DEVNULL)
        if done.returncode:
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
