"""How a missing package is installed: into this environment, and never under the name of another project."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from nexus_cli.core import install_hint as hints
from nexus_cli.core.install_hint import EXTRAS, install_hint

ROOT = Path(__file__).resolve().parents[2]


def test_the_packages_are_those_of_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name: [package] for name, package in EXTRAS.items()} == {name: extras[name] for name in EXTRAS}


@pytest.mark.parametrize(("has_pip", "start"), [(True, "-m pip install '"), (False, "uv pip install --python ")])
def test_the_command_installs_into_the_environment_of_this_process(
    has_pip: bool, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "find_spec", lambda name: has_pip or None)
    shown = install_hint("mcp")
    assert sys.executable in shown and start in shown and shown.endswith(" 'mcp>=2.3,<3'")


def test_no_text_names_a_package_index_for_nexus_itself() -> None:
    texts = [*(ROOT / "nexus_cli").rglob("*.py"), *(ROOT / "nexus_cli" / "docs").glob("*.md"), ROOT / "README.md"]
    assert [str(path) for path in texts if "nexus-cli[" in path.read_text()] == []
