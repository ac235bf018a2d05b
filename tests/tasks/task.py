"""A task: the files of a small project, what a person asks for, a check of the result, and calls that solve it.

Each is one file `projects/NAME.toml`; the README of this folder says what stands in it.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CHECK_SECONDS = 60.0
PROJECTS = Path(__file__).parent / "projects"
OWN = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "P",
    "GIT_AUTHOR_EMAIL": "p@example.org",
    "GIT_COMMITTER_NAME": "P",
    "GIT_COMMITTER_EMAIL": "p@example.org",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
}
"""What the scripts of a task find in their environment, beside PATH."""
NOT = 'not() { ! "$@"; }\n'
"""For checks: bash does not stop at a command after `!`."""
COMMIT = """git init -q -b main && git config user.name P && git config user.email p@example.org && git add -A &&
git commit -qm "First version"
"""


@dataclass(frozen=True)
class Turn:
    """What a person says, and the steps that do it."""

    prompt: str
    steps: Sequence[Mapping[str, Any]]
    reply: str = "Done."
    is_new: bool = False
    """It begins a session; else it continues the one of the turn before."""


@dataclass(frozen=True)
class Task:
    """One task."""

    name: str
    turns: Sequence[Turn]
    files: Mapping[str, str]
    check: str
    make: str = ""
    change: str = ""
    git: bool = True
    programs: Sequence[str] = ()
    tool: str = ""
    module: str = ""
    changes_settings: bool = False
    workers: Sequence[Task] = ()
    """What the workers of the model do."""
    answers: Sequence[str] = ()
    """The person's answers to questions of the model; () if nobody is there."""

    def prepare(self, folder: Path) -> None:
        """Write the project into an empty folder."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        for script in (self.make, COMMIT if self.git else "", self.change):
            if script:
                run_script(script, folder)

    def find_fault(self, folder: Path, reply: str) -> str:
        """Return what the check says of a project in which it fails, "" if it passes; `reply` is the last answer."""
        try:
            done = subprocess.run(
                ["bash", "-euc", NOT + self.check],
                cwd=folder,
                env={"PATH": os.environ["PATH"], **OWN, "REPLY": reply},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"the check takes longer than {CHECK_SECONDS:g} s"
        told = (done.stdout + done.stderr).decode(errors="replace")
        return f"exit status {done.returncode}\n{told}" if done.returncode else ""


def run_script(script: str, folder: Path) -> None:
    """Run the bash script of a task; raises `subprocess.CalledProcessError`."""
    env = {"PATH": os.environ["PATH"], **OWN}
    subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


@cache
def load(name: str) -> Task:
    """Read the task of this name; raises `KeyError` and `TypeError` for a file that is none."""
    found = tomllib.loads((PROJECTS / f"{name}.toml").read_text())
    turns = split_turns(found.pop("prompt"), found.pop("steps"), found.pop("reply", "Done."))
    workers = [
        Task("worker", split_turns(one["prompt"], one["steps"], one["reply"]), {}, "")
        for one in found.pop("workers", ())
    ]
    return Task(name, turns, found.pop("files", {}), workers=workers, **found)


def split_turns(prompt: str, steps: Sequence[Mapping[str, Any]], reply: str = "Done.") -> Sequence[Turn]:
    """Return the turns of steps among which `say` ends one."""
    turns: list[Turn] = []
    taken: list[Mapping[str, Any]] = []
    is_new = True
    for step in (*steps, {"say": reply}):
        if "say" in step:
            turns.append(Turn(prompt, tuple(taken), step["say"], is_new))
            prompt, taken, is_new = step.get("then", ""), [], step.get("new", False)
        else:
            taken.append(step)
    return tuple(turns)


def names() -> list[str]:
    """List the tasks."""
    return sorted(path.stem for path in PROJECTS.glob("*.toml"))
