"""The folder of the tour: a small project, a NEXUS_HOME of its own, and the environment that names it.

The person's own folders are neither read nor written.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.cli.tour.scripted_model import MODEL
from nexus_cli.config.load_settings import build_settings
from nexus_cli.config.paths import defaults_dir
from nexus_cli.config.setting_rules import SettingValue
from nexus_cli.config.setting_tables import DEFAULTS
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError

WINDOW = 16_000
"""Tokens: so few that the window is full after a few steps."""
MODEL_VALUES: Mapping[str, SettingValue] = {
    "window": WINDOW,
    "max_output": 2000,
    "input_price": 3.0,
    "output_price": 15.0,
    "cache_read_price": 0.3,
}
"""Prices of an ordinary model; nobody pays them."""
LOG_LINES, LOG_ERROR = 420, 205
"""The only error of the log is in its middle, the part that is cut from a long result."""
COUNTRIES = ("DE", "FR", "SE", "PT", "PL", "IE")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folder of one tour."""

    folder: Path

    @property
    def project(self) -> Path:
        """The working folder of the session."""
        return self.folder / "shop"

    @property
    def home(self) -> Path:
        """The value of NEXUS_HOME during the tour."""
        return self.folder / "home"


def sandbox_settings() -> Settings:
    """Return the packaged settings with the scripted model's window; the person's own are not read."""
    model = {f"models.{MODEL}.{name}": value for name, value in MODEL_VALUES.items()}
    return build_settings({**DEFAULTS, **model})


@contextmanager
def open_sandbox(keep: bool) -> Iterator[Sandbox]:
    """Make a sandbox and point the environment at it until the block ends; delete it then, unless `keep`."""
    parent = os.environ.get("TMPDIR")
    try:
        sandbox = Sandbox(Path(os.path.realpath(tempfile.mkdtemp(prefix="nexus-", dir=parent or None))))
    except OSError as error:
        raise _write_error(Path(parent or os.sep), error) from error
    before = dict(os.environ)
    # The tests of the project run with this interpreter, outside its virtual environment.
    programs = os.path.dirname(os.path.realpath(sys.executable))
    path = os.pathsep.join(filter(None, (programs, before.get("PATH", ""))))
    os.environ.update({"NEXUS_HOME": str(sandbox.home), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        try:
            _write_project(sandbox)
        except OSError as error:
            raise _write_error(sandbox.folder, error) from error
        yield sandbox
    finally:
        os.environ.clear()
        os.environ.update(before)
        if not keep:
            remove_sandbox(sandbox)


def remove_sandbox(sandbox: Sandbox) -> None:
    """Delete the folder, ignoring errors."""
    shutil.rmtree(sandbox.folder, ignore_errors=True)


def _write_error(folder: Path, error: OSError) -> NexusError:
    why = f"nothing can be written in {folder} ({error.strerror})"
    return NexusError("internal", "no folder to work in", why, "Set TMPDIR to a writable folder")


def _write_project(sandbox: Sandbox) -> None:
    files = tomllib.loads((defaults_dir() / "tour" / "project.toml").read_text(encoding="utf-8"))
    # The minimum that git accepts as a repository, so that it does not search the parent folders.
    for name in ("objects", "refs"):
        (sandbox.project / ".git" / name).mkdir(parents=True)
    files |= {".git/HEAD": "ref: refs/heads/main\n", "shop.log": _order_log()}
    for name, text in files.items():
        path = sandbox.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _order_log() -> str:
    lines = []
    for number in range(LOG_LINES):
        at = f"2026-03-02 {8 + number // 60:02}:{number % 60:02}:{number * 37 % 60:02}"
        cents = 100 + number * 7919 % 9000
        lines.append(f"{at} INFO order {8001 + number} paid {cents} {COUNTRIES[number % len(COUNTRIES)]}")
    lines[LOG_ERROR] = lines[LOG_ERROR].partition(" INFO ")[0] + " ERROR order 8206: 490 charged for sending 5000"
    return "\n".join(lines) + "\n"
