"""Adding a noun: a file with its report and its verbs is all that it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nexus_cli

NOUN = """
from __future__ import annotations

from typing import Annotated
from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.option import Option
from nexus_cli.reports.text.blocks import Blocks


class ZebrasReport(VersionedReport):
    \"\"\"The zebras of a folder.\"\"\"

    zebras: list[str]
    tall: bool


def zebras_text(value: JsonObject) -> Blocks:
    \"\"\"Name the zebras.\"\"\"
    yield f"{', '.join(value['zebras'])} ({'tall' if value['tall'] else 'any'})"


def list_zebras(
    source: Source, tall: Annotated[bool, Option(None, "Only tall ones.")] = False
) -> Report[ZebrasReport]:
    \"\"\"List the zebras of this folder.\"\"\"
    return Report("zebras", {"version": 1, "zebras": ["Zoe"], "tall": tall})


NOUN = Noun("zebra", "run", (Verb(list_zebras, "list"),), "List the zebras of this folder.")
"""
TESTS = Path(__file__).parent.parent
SLASH = """
from nexus_cli.commands import discover
command = discover()["zebra"]
print(command.usage, command.summary, command.complete is not None, command.is_served)
"""
UNWRITTEN = """
from recorded.inside import list_unwritten
print(list_unwritten(), end="")
"""


@pytest.mark.matrix
def test_a_noun_is_a_command_in_the_shell_and_behind_the_slash_with_its_page(tmp_path: Path) -> None:
    package = tmp_path / "site" / "nexus_cli"
    source = Path(nexus_cli.__file__).parent
    package.parent.mkdir()
    subprocess.run(["cp", "-a", str(source), str(package)], check=True)
    (package / "commands" / "zebra.py").write_text(NOUN)
    env = {"PYTHONPATH": f"{package.parent}:{TESTS}", "NEXUS_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}

    def run(*arguments: str) -> str:
        line = [sys.executable, *arguments]
        return subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, check=True, text=True).stdout

    nexus = ("-m", "nexus_cli")
    assert run(*nexus, "zebra", "list", "--tall") == "Zoe (tall)\n" and run(*nexus, "zebra") == "Zoe (any)\n"
    assert json.loads(run(*nexus, "zebra", "--json")) == {"version": 1, "zebras": ["Zoe"], "tall": False}
    assert "--tall" in run(*nexus, "zebra", "list", "--help")
    run(str(TESTS / "cli" / "test_start_table.py"))
    assert "List the zebras of this folder." in run(*nexus, "--help", "all")
    env |= {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": "nexus zebra list --t", "COMP_CWORD": "3"}
    assert run(*nexus) == "--tall\n"
    del env["_NEXUS_COMPLETE"]
    assert "`nexus zebra list --json`" in run(*nexus, "docs", "json")
    assert run("-c", SLASH).split("\n")[0] == "[list [--tall]] List the zebras of this folder. True True"
    assert run("-c", UNWRITTEN) == "zebra list [--json]\n"
