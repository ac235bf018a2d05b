"""The folder it all happens in: a project, a home of its own, the environment that leads there; gone at the end.

Knows nothing of what happens in it. The person's own folders are neither read nor written.
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

from nexus_cli.config.paths import defaults_dir
from nexus_cli.config.setting_rules import Scalar
from nexus_cli.config.settings import Settings, build_settings, read_values
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.scripted import MODEL, ScriptedProvider, load_script

WINDOW = 16_000
"""Tokens: so small that it is full within a few steps."""
MODEL_VALUES: Mapping[str, Scalar] = {
    "window": WINDOW, "max_output": 2000, "input_price": 3.0, "output_price": 15.0, "cache_read_price": 0.3,
}  # fmt: skip
"""The prices are those of an ordinary model: figures to be seen, which nobody pays."""
LOG_LINES = 420
LOG_ERROR = 205
"""The line of the log that is an error: in its middle, where a long text is cut."""
COUNTRIES = ("DE", "FR", "SE", "PT", "PL", "IE")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder."""

    folder: Path

    @property
    def project(self) -> Path:
        """Where the work is done."""
        return self.folder / "shop"

    @property
    def home(self) -> Path:
        """What NEXUS_HOME names meanwhile."""
        return self.folder / "home"

    def orders(self) -> list[str]:
        """The numbers of all orders."""
        lines = (self.project / "orders.csv").read_text(encoding="utf-8").splitlines()
        return [line.partition(",")[0] for line in lines[1:]]

    def booked(self) -> list[str]:
        """The numbers of the orders that were booked so far."""
        path = self.project / "booked.txt"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def environment(self) -> dict[str, str]:
        """Return what stands in the environment meanwhile. Tests run with the interpreter that runs now, outside of its
        virtual environment."""
        programs = os.path.dirname(os.path.realpath(sys.executable))
        path = os.pathsep.join(filter(None, (programs, os.environ.get("PATH", ""))))
        return {"NEXUS_HOME": str(self.home), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def provider(self, pace: float) -> ScriptedProvider:
        """The scripted model; all of one folder share what was sent to it."""
        return ScriptedProvider(
            load_script(defaults_dir() / "guide" / "script.toml"), pace=pace, memory=self.folder / "sent"
        )


def settings() -> Settings:
    """The packaged settings, with the scripted model's window; the person's own do not count here."""
    known = {f"models.{MODEL}.{name}": value for name, value in MODEL_VALUES.items()}
    return build_settings(read_values(defaults_dir() / "config.toml") | known)


@contextmanager
def place(keep: bool) -> Iterator[Place]:
    """A new folder with the project in it; the environment leads there until the block ends, then all of it is gone.

    With `keep` the folder stays. `NexusError("internal", ...)` where it cannot be made.
    """
    made = _made()
    ours = made.environment()
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        try:
            _write(made)
        except OSError as error:
            raise _unwritable(made.folder, error) from error
        yield made
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if not keep:
            remove(made.folder)


def remove(folder: Path) -> None:
    """Delete the folder; what cannot be deleted stays."""
    shutil.rmtree(folder, ignore_errors=True)


def _made() -> Place:
    wanted = os.environ.get("TMPDIR")
    try:
        return Place(Path(os.path.realpath(tempfile.mkdtemp(prefix="nexus-", dir=wanted or None))))
    except OSError as error:
        raise _unwritable(Path(wanted or os.sep), error) from error


def _unwritable(folder: Path, error: OSError) -> NexusError:
    why = f"nothing can be written in {folder} ({error.strerror})"
    return NexusError("internal", "there is no room to work in", why, "Set TMPDIR to a folder that can be written")


def _write(made: Place) -> None:
    files = {
        **tomllib.loads((defaults_dir() / "guide" / "project.toml").read_text(encoding="utf-8")),
        "shop.log": _log(),
    }
    # The least that git takes for a repository: what lies above this folder is then nobody's business.
    for name in ("objects", "refs"):
        (made.project / ".git" / name).mkdir(parents=True)
    files[".git/HEAD"] = "ref: refs/heads/main\n"
    for name, text in files.items():
        path = made.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _log() -> str:
    lines = []
    for number in range(LOG_LINES):
        at = f"2026-03-02 {8 + number // 60:02}:{number % 60:02}:{number * 37 % 60:02}"
        cents = 100 + number * 7919 % 9000
        lines.append(f"{at} INFO order {8001 + number} paid {cents} {COUNTRIES[number % len(COUNTRIES)]}")
    lines[LOG_ERROR] = lines[LOG_ERROR].partition(" INFO ")[0] + " ERROR order 8206: 490 charged for sending 5000"
    return "\n".join(lines) + "\n"
