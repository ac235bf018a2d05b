"""Programs that some tests need, and what was left out where one is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

PACKAGES = {
    "bwrap": "bubblewrap",
    "cc": "gcc",
    "rg": "ripgrep",
    "go": "golang",
    "node": "nodejs",
    "postgres": "postgresql",
    "capsh": "libcap2-bin",
    "systemd-run": "systemd",
    "ps": "procps",
}
"""The package of a program that has another name than the program."""
TRIED = {"go": "version", "openssl": "version", "ps": "-A"}
"""What a program is tried with that has no `--version`."""
MISSING = " is not installed"
NOBODY = 65534


@cache
def _starts(program: str, path: str | None, **more: str) -> bool:
    found = shutil.which(program, path=path)
    words = [found or "", TRIED.get(program, "--version")]
    try:
        return subprocess.run(words, env={**os.environ, **more}, capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def need(program: str, path: str | None = None, **more: str) -> None:
    """Skip the test where this program is not installed, or does not start with the environment and `more` of it.

    The launcher of a version manager may be there without the program.
    """
    if not _starts(program, path, **more):
        pytest.skip(missing(program))


def missing(program: str) -> str:
    """Return the reason of a test that is skipped because this program is not installed."""
    return f"{PACKAGES.get(program, program)}{MISSING}"


@cache
def why_no_bwrap(ordinary: bool = False) -> str:
    """Return why bubblewrap cannot be used, "" if it can; `ordinary`: by a user who is not root."""
    from nexus_cli.sandbox.bwrap import find_bwrap

    if (program := find_bwrap(None)) is None:
        return missing("bwrap")
    user: dict[str, Any] = {}
    if ordinary and os.geteuid() == 0:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    words = [str(program), "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    done = subprocess.run(words, cwd="/", capture_output=True, **user)
    return "bubblewrap cannot make namespaces here" if done.returncode else ""


def describe_left_out(reports: Iterable[Any]) -> list[str]:
    """Return a line for each reason of skipped tests, the most frequent first, and one with the packages to install."""
    reasons = Counter(_reason(report) for report in reports)
    lines = [f"{count:5,}  {reason}" for reason, count in sorted(reasons.items(), key=lambda row: (-row[1], row[0]))]
    packages = sorted(reason.removesuffix(MISSING) for reason in reasons if reason.endswith(MISSING))
    return [*lines, f"To run these too, install: {', '.join(packages)}"] if packages else lines


def _reason(report: Any) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(told).removeprefix("Skipped: ")
