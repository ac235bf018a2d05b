"""The folder of the tour: a small project, and a NEXUS_HOME of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import real_path

LOG_LINES, LOG_ERROR = 420, 205
"""The only error of the log is in its middle, the part that is cut from a long result."""


def make_folder() -> Path:
    """Make an empty folder."""
    parent = os.environ.get("TMPDIR") or tempfile.gettempdir()
    with _report_write_errors(parent):
        return real_path(tempfile.mkdtemp(prefix="nexus-", dir=parent))


def enter_folder(folder: Path, files: Mapping[str, str]) -> Path:
    """Write `files` and a log below `folder`, point the environment there; return the project.

    The person's own folders are neither read nor written from now on.
    """
    with _report_write_errors(folder):
        for name, text in {**files, "shop/shop.log": _order_log()}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    # The tests of the project run with this interpreter, outside its virtual environment.
    programs = os.path.dirname(os.path.realpath(sys.executable))
    os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
    os.environ |= {"NEXUS_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return folder / "shop"


@contextmanager
def _report_write_errors(folder: Path | str) -> Iterator[None]:
    """Convert errors of writing in `folder` within the block to `NexusError`."""
    try:
        yield
    except OSError as error:
        why = f"cannot write in {folder} ({error.strerror})"
        raise NexusError("internal", "no writable folder", why, "Set TMPDIR to a writable folder") from error


def _order_log() -> str:
    lines = []
    for number in range(LOG_LINES):
        timestamp = f"2026-03-02 {8 + number // 60:02}:{number % 60:02}:{number * 37 % 60:02}"
        lines.append(f"{timestamp} INFO order {8001 + number} paid {100 + number * 7919 % 9000} DE\n")
    lines[LOG_ERROR] = lines[LOG_ERROR].partition(" INFO ")[0] + " ERROR order 8206: 490 charged for shipping 5000\n"
    return "".join(lines)
