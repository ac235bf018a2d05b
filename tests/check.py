"""The check of a checkout: ruff, mypy --strict, then the suite. With `quick`, only the tests of what changed.

Owns the order and the exit status: every step runs, and any step that fails fails the whole. pytest comes last. Up to
five tests that failed run once more alone, and are named as unsteady if they pass then. Leaves installing to the
README's Test line. `tests/README.md` says what to run when.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

PROCESSES = str(min(8, 3 * (os.cpu_count() or 1)))
STEPS = (
    ("ruff", ("-m", "ruff", "check", "--quiet", ".")),
    ("format", ("-m", "ruff", "format", "--check", "--quiet", ".")),
    ("types", ("-m", "mypy", "--strict", "--no-error-summary")),
    # Three processes per core, since many tests wait for a terminal; the tests of one file share what they set up.
    # Their order is `tests/conftest.py`'s: what takes long begins first.
    ("suite", ("-m", "pytest", "-n", PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder")),
)


COLLECT = ("-m", "pytest", "--collect-only", "--quiet", "--quiet")
"""Compiles every test beside the first steps, which leave a core idle: else each process of the suite would do it."""
UPSTREAM = ("upstream/main", "origin/main", "main")
"""Branches that a change is compared with: the first one that exists."""
ALWAYS = "tests/test_architecture.py"
MOST_AGAIN = 5
"""Failed tests that are run once more alone. More than these are no accident."""


def main(arguments: list[str]) -> int:
    """Run every step with this interpreter; `arguments` go to pytest. Returns 1 when any of them failed."""
    failed: list[str] = []
    quick = arguments[:1] == ["quick"]
    if quick:
        chosen = choose_tests(changed_files())
        print(f"quick: {' '.join(chosen)}", flush=True)
        arguments = [*chosen, *arguments[1:]]
    nothing = subprocess.DEVNULL
    collect = [sys.executable, *COLLECT, *(arguments if quick else ())]
    ahead = subprocess.Popen(collect, cwd=ROOT, stdin=nothing, stdout=nothing, stderr=nothing)
    for name, step in STEPS:
        print(f"== {name}{', after a failure of ' + ' and '.join(failed) if failed else ''}", flush=True)
        extra = arguments if name == "suite" else []
        if name == "suite":
            ahead.wait()
        done = subprocess.run([sys.executable, *step, *extra], cwd=ROOT, stdin=subprocess.DEVNULL)
        if done.returncode and not (name == "suite" and not arguments and passes_alone()):
            failed.append(name)
    return 1 if failed else 0


def passes_alone(root: Path = ROOT) -> bool:
    """Run the few tests that failed once more, one at a time; return whether all pass. They are named in any case.

    Of 12,000 tests on two cores, one may fail by the load of the others. Such a test is to be mended, and the output
    names it for that, but it says nothing against the change that is checked.
    """
    noted = root / ".pytest_cache" / "v" / "cache" / "lastfailed"
    names = sorted(json.loads(noted.read_text())) if noted.exists() else []
    if not 0 < len(names) <= MOST_AGAIN:
        return False
    print(f"== again, alone: {len(names)} that failed", flush=True)
    done = subprocess.run([sys.executable, "-m", "pytest", *names], cwd=root, stdin=subprocess.DEVNULL)
    print(f"== {'unsteady, to be mended' if done.returncode == 0 else 'failed'}: {', '.join(names)}", flush=True)
    return done.returncode == 0


def changed_files(root: Path = ROOT) -> list[str]:
    """Return the files that differ from the merge base with upstream, committed or not, deleted and new ones too."""
    base = next((found for name in UPSTREAM if (found := _git(root, "merge-base", "HEAD", name))), ["HEAD"])
    listed = _git(root, "diff", "--name-only", "--no-renames", base[0])
    return sorted({*listed, *_git(root, "ls-files", "--others", "--exclude-standard")})


def choose_tests(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return what pytest runs for these files: changed tests, and the test folder of each changed room.

    A change in `nexus_cli/ui/input/` means `tests/ui/input/`, or `tests/ui/` if there is no such folder.
    """
    chosen = {ALWAYS}
    for name in changed:
        path = PurePosixPath(name)
        if path.match("tests/**/test_*.py") or path.match("tests/test_*.py"):
            chosen.add(name)
        elif path.parts[0] == "nexus_cli":
            chosen.add(str(PurePosixPath("tests", *path.parent.parts[1:])))
        elif path.parts[0] == "tests":  # a conftest.py, a fixture, an expected screen
            chosen.add(str(path.parent))
    found = {_existing(root, name) for name in chosen} - {""}
    return sorted(name for name in found if not any(str(above) in found for above in PurePosixPath(name).parents))


def _existing(root: Path, name: str) -> str:
    """Return the first of `name` and its parents below `tests/` that exists; "" if none does."""
    path = PurePosixPath(name)
    if path.suffix:
        return name if (root / name).exists() else ""
    while len(path.parts) > 1 and not (root / path).is_dir():
        path = path.parent
    return str(path) if len(path.parts) > 1 else ""


def _git(root: Path, *words: str) -> list[str]:
    """Return the lines that git prints; none if it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.split("\n")[:-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
