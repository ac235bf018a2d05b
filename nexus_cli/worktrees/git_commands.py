"""Run git for our own purposes: without hooks, monitors, filters of a repository's configuration, network or
prompts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.config.programs import git_command, git_environment, run_program, start_program
from nexus_cli.core.errors import NexusError

SECONDS = 600.0
"""Time limit of one run: a large repository on a slow disk takes minutes."""


class GitError(Exception):
    """A run of git that failed; the text is its reason in one line."""


_UNSEEN = (b"could not open directory", b"Ignoring path")
"""Git only warns about a folder that it cannot list and a name like `.Git`; we treat both as errors."""


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one folder."""

    program: str
    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS
    """Time limit of one run."""

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return the output of a run. Raises `GitError` if it fails, cannot be started or takes too long."""
        status, output, errors = self.try_run(*arguments, stdin=stdin)
        if status or any(words in errors for words in _UNSEEN):
            hint = "; git takes no such name: rename or delete it" if b"Ignoring path" in errors else ""
            raise GitError(_reason(errors) + hint or f"git {arguments[0]} ended with status {status}")
        return output

    def line(self, *arguments: str) -> str:
        """Return the output of a run as one line of text."""
        return os.fsdecode(self.run(*arguments)).strip("\n")

    def try_run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Return exit status, output and errors; raise `GitError` if it cannot be started or takes too long."""
        try:
            command = git_command(self.program, self.cwd, *arguments)
            done = run_program(command, env=self.environment(), cwd=self.cwd, input=stdin, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            raise GitError(f"git {arguments[0]} took longer than {self.seconds:.0f} s") from None
        except (OSError, ValueError) as error:
            raise GitError(f"git could not be started ({error})") from None
        return done.returncode, done.stdout, done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a run with pipes for input and output. Raises `OSError`."""
        return start_program(
            git_command(self.program, self.cwd, *arguments),
            env=self.environment(),
            cwd=self.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def environment(self) -> dict[str, str]:
        return {**git_environment(self.cwd), **self.variables}

    def without_filters(self) -> Sequence[str]:
        """Return options that switch off every filter of any configuration, because comparing files would run them."""
        listed = self.try_run("config", "--includes", "-z", "--name-only", "--get-regexp", "^filter[.]")[1]
        names = {name.rpartition(".")[0] for name in os.fsdecode(listed).split("\0") if name}
        if any("=" in name for name in names):
            raise GitError("the configuration names filters that cannot be switched off")
        off = ("clean=", "smudge=", "process=", "required=false")
        return [word for name in sorted(names) for value in off for word in ("-c", f"{name}.{value}")]


def failure(what: str, error: GitError | OSError) -> NexusError:
    """Return the error to show to a person when git or the disk failed."""
    why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    named = f"{why}: {os.fsdecode(error.filename)}" if isinstance(error, OSError) and error.filename else why
    full = "no space" in why.lower() or "quota" in why.lower()
    return NexusError("internal", what, named, "Free some space" if full else "Your files are as they were")


def _reason(errors: bytes) -> str:
    lines = [line for line in os.fsdecode(errors).splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    return re.sub(r"^(fatal|error): ", "", told)[:300]
