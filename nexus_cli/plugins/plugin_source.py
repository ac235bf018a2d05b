"""Open the source of a plugin: a folder, or a commit of a git repository. Nothing follows a branch."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nexus_cli.config.programs import GIT_OPTIONS, find_program, git_environment, run_program
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.plugins.installed_plugins import PluginSource

SECONDS = 300.0
"""Time limit of one command of git."""
_COMMIT = re.compile(r"(?P<place>.+)@(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})(?::(?P<inner>.+))?", re.DOTALL)
_REMOTE = re.compile(r"[a-z][a-z+.-]*://|[\w.-]+@[\w.-]+:")
_HINT = "nexus plugin add REPOSITORY@COMMIT, with the commit's 40 digits (git ls-remote REPOSITORY)"


def parse_source(text: str, cwd: Path) -> PluginSource:
    """Return the source that a person names: PATH, or REPOSITORY@COMMIT[:FOLDER]; raise `NexusError("usage", ...)` for
    a repository without a whole commit."""
    if found := _COMMIT.fullmatch(text):
        place = found["place"]
        local = os.path.abspath(cwd / os.path.expanduser(place))
        place = local if not _REMOTE.match(place) and os.path.exists(local) else place
        inner = os.path.normpath(found["inner"] or ".")
        if inner.startswith(("/", "..")) or place.startswith("-"):
            raise NexusError("usage", one_line(text), "not a folder in a repository", _HINT)
        return PluginSource(place, found["commit"], "" if inner == "." else inner)
    if _REMOTE.match(text) or text.endswith(".git"):
        why = "a repository needs a commit: a branch or tag may change what runs here"
        raise NexusError("usage", one_line(text), why, _HINT)
    return PluginSource(os.path.abspath(cwd / os.path.expanduser(text)))


@contextmanager
def open_source(source: PluginSource) -> Iterator[Path]:
    """Yield the folder of a source, or a commit fetched into one; raise `NexusError` if it cannot be had."""
    if not source.commit:
        if not os.path.isdir(source.place):
            why = "there is no such folder"
            raise NexusError("usage", one_line(source.place), why, f"Name a folder, or a repository: {_HINT}")
        yield Path(source.place)
        return
    with tempfile.TemporaryDirectory(prefix="nexus-plugin-") as made:
        folder = Path(os.path.realpath(made))
        _fetch(source, folder)
        inner = folder / source.inner
        if not inner.is_dir():
            raise NexusError("usage", one_line(source.shown), f"the commit has no folder {one_line(source.inner)}")
        yield inner


def _fetch(source: PluginSource, folder: Path) -> None:
    """Check out a commit in `folder`. Servers that give no single commits are asked for all branches."""
    git = find_program("git")
    if git is None:
        raise NexusError("config", one_line(source.shown), "git is not installed", "Install git")
    env = {**git_environment(Path.cwd()), "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
    options = [word if word != "protocol.allow=never" else "protocol.allow=user" for word in GIT_OPTIONS]

    def run(*arguments: str) -> str:
        try:
            done = run_program([git, *options, *arguments], env=env, cwd=folder, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"git took longer than {SECONDS:.0f} s"
        lines = os.fsdecode(done.stderr).strip().splitlines()
        return (one_line(lines[-1]) if lines else "git failed") if done.returncode else ""

    why = run("init", "-q", "--template=")
    why = why or run("fetch", "-q", "--no-tags", "--depth=1", "--", source.place, source.commit)
    if why:
        why = run("fetch", "-q", "--", source.place, "+refs/*:refs/fetched/*")
    why = why or run("-c", "core.autocrlf=false", "checkout", "-q", "--detach", source.commit)
    if why:
        raise NexusError("network", one_line(source.shown), why, "Check the repository and the commit")
