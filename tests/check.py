"""The check of a checkout: ruff, mypy --strict and the suite, which is the gate, the full matrix or what changed.

    python tests/check.py          the gate: all but the tests that are marked `matrix`
    python tests/check.py --all    the full matrix, then the gate in a clone whose path is long and has a blank
    python tests/check.py quick    the tests that import what changed, and those of tables, until a minute is over
    python tests/check.py renew    write the recordings anew (all of RECORDINGS, or those that are named)

Owns the order and the exit status: every step runs, and any step that fails fails the whole. mypy runs beside the
suite. Further arguments go to pytest. `tests/README.md` says what to run when.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from changes import changed_files, choose_tests

ROOT = Path(__file__).resolve().parent.parent

PROCESSES = str(min(8, 3 * (os.cpu_count() or 1)))
"""Three for each core, since many tests wait for a terminal."""
RUFF = (
    ("ruff", ("-m", "ruff", "check", "--quiet", ".")),
    ("format", ("-m", "ruff", "format", "--check", "--quiet", ".")),
)
MYPY = ("-m", "mypy", "--strict", "--no-error-summary")
SUITE = ("-m", "pytest", "--processes", PROCESSES)
GATE = ("-m", "not matrix")
QUICK_SECONDS = 44
"""So long after its start `quick` begins no more tests: the last ones have to end within a minute."""
QUICK_PROCESSES = str(min(4, 2 * (os.cpu_count() or 1)))
"""Fewer than in the gate, so that the nearest tests end first on a busy machine."""
QUICK_FILES = 100
"""So many files of tests are collected at most: the others would not run in time."""
RECORDINGS = {
    "start": ("tests/cli/test_start_table.py",),
    "mistakes": ("tests/program/test_mistakes.py",),
    "outputs": ("tests/recorded/outputs.py", "write"),
    "requests": ("tests/recorded/record.py",),
    "budget": ("tests/test_architecture.py",),
}
"""What the tests compare the product with and a script writes, in the order of writing: the table that is read at the
start, the answers to mistakes, what each command prints, the requests of recorded sessions, the weight of each room."""
README = ROOT / "tests" / "README.md"
LAST_RUN = re.compile(
    r"^The full matrix (?:has not passed yet|last passed on (\S+) at commit ([0-9a-f]+))\.$", re.MULTILINE
)
MANY_COMMITS = 50
LONG = 200
"""Characters of the path in which a clone is checked."""


def main(arguments: list[str]) -> int:
    """Run every step with this interpreter; `arguments` go to pytest. Returns 1 when any of them failed."""
    if arguments[:1] == ["renew"]:
        return renew(arguments[1:] or list(RECORDINGS))
    if arguments[:1] == ["quick"]:
        chosen = choose_tests(changed_files(ROOT), ROOT)
        if far := chosen[QUICK_FILES:]:
            print(f"quick: {len(far)} more files depend on what changed; the gate runs them: python tests/check.py")
        limits = ["--processes", QUICK_PROCESSES, "--seconds", str(QUICK_SECONDS)]
        return check("quick", [*limits, *arguments[1:], *chosen[:QUICK_FILES]])
    return check("all", arguments[1:]) if arguments[:1] == ["--all"] else check("gate", arguments)


def check(mode: str, given: list[str]) -> int:
    """Run the steps, the suite with `given` for pytest; return the exit status."""
    types = subprocess.Popen([sys.executable, *MYPY], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    failed = [name for name, words in RUFF if not run(name, words)]
    if not run("suite", (*SUITE, *(GATE if mode == "gate" else ()), *given)):
        failed.append("suite")
    written, _ = types.communicate()
    print(f"== types\n{written.decode()}", end="", flush=True)
    failed += ["types"] if types.returncode else []
    if mode == "all" and not given and not failed:
        failed += [] if passes_in_long_path() else ["clone"]
        note_full_run() if not failed else None
    if mode == "gate" and (line := describe_age()):
        print(line)
    print(f"failed: {', '.join(failed)}" if failed else "passed", flush=True)
    return 1 if failed else 0


def renew(names: list[str]) -> int:
    """Write these recordings anew, and print which files changed. Returns 2 for a name that is none of `RECORDINGS`."""
    if unknown := [name for name in names if name not in RECORDINGS]:
        print(f"{unknown[0]} is not a recording; there are: {', '.join(RECORDINGS)}", file=sys.stderr)
        return 2
    failed = [name for name, words in RECORDINGS.items() if name in names and not run(name, words)]
    print(_git("status", "--short", "--", "tests", "nexus_cli/cli/start_table.txt") or "nothing changed")
    print(f"failed: {', '.join(failed)}" if failed else "read what changed: git diff", flush=True)
    return 1 if failed else 0


def run(name: str, words: Iterable[str]) -> bool:
    """Run a step with this interpreter, in sight; return whether it passes."""
    print(f"== {name}", flush=True)
    return subprocess.run([sys.executable, *words], cwd=ROOT, stdin=subprocess.DEVNULL).returncode == 0


def passes_in_long_path() -> bool:
    """Run `.ci/run` under `nohup` in a clone of HEAD whose path has 200 characters and a blank; return if it passes.

    In such a path pip's launchers are shell scripts, and a socket cannot be named by its whole path.
    """
    print("== clone, in a long path with a blank", flush=True)
    with tempfile.TemporaryDirectory(prefix="nexus check ") as made:
        os.chmod(made, 0o755)  # root's tests become another user
        clone = Path(made, "a" * (LONG - len(made) - 1))
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, stdin=subprocess.DEVNULL)
        done = subprocess.run(["nohup", str(clone / ".ci" / "run")], cwd=clone, stdin=subprocess.DEVNULL)
    return done.returncode == 0


def note_full_run() -> None:
    """Write into `tests/README.md` when and at which commit everything passed."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    line = f"The full matrix last passed on {time.strftime('%Y-%m-%d', time.gmtime())} at commit {commit}."
    README.write_text(LAST_RUN.sub(line, README.read_text(encoding="utf-8"), count=1), encoding="utf-8")


def describe_age() -> str:
    """Return a line if the full matrix has not passed for many commits, else ""."""
    noted = LAST_RUN.search(README.read_text(encoding="utf-8"))
    day, commit = noted.groups() if noted else (None, None)
    if commit is None:
        return "the full matrix has not passed yet; run it with: python tests/check.py --all"
    since = _git("rev-list", "--count", f"{commit}..HEAD")
    if since.isdigit() and int(since) <= MANY_COMMITS:
        return ""
    ago = f", {since} commits ago" if since else ""
    return f"the full matrix last passed on {day} at {commit}{ago}; run it with: python tests/check.py --all"


def _git(*words: str) -> str:
    """Return what git prints, "" where it fails: a source archive has no repository."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
