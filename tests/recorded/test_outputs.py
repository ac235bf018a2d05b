"""What the commands print is what was recorded: help, reports as text and as JSON, mistakes, slash commands, server."""

from __future__ import annotations

import json
import re
import sys

import pytest
from json_shape import find_verb, list_verbs, problems_of_line
from programs import need
from recorded.command_lines import LEFT_OUT
from recorded.outputs import CHANGING, EXPECTED, PARTS, READERS, difference, record

RENEW = "If this is what was meant: python tests/recorded/outputs.py write, and a line in CHANGELOG.md"

MOST = 80
"""Lines of a difference that a failing test prints."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    need("cc")
    if not sys.platform.startswith("linux"):
        pytest.skip("the clock of a recording needs Linux")
    return record()


@pytest.mark.parametrize("name", PARTS)
def test_the_commands_print_what_was_recorded(texts: dict[str, str], name: str) -> None:
    found = difference(name, texts[name]).splitlines()
    more = f"... {len(found) - MOST:,} more lines; all: python tests/recorded/outputs.py compare {name}\n"
    assert not found, "\n".join([*found[:MOST], more * (len(found) > MOST) + RENEW])


def titles(name: str) -> list[str]:
    """Return the titles of the blocks of an expected file."""
    return re.findall(r"^=== (.*)", (EXPECTED / f"{name}.txt").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_command_is_run_or_left_out_with_a_reason() -> None:
    names = [title.removeprefix("nexus ").removesuffix(" --help") for title in titles("help")[2:]]
    leaves = [name for name in names if not any(other.startswith(f"{name} ") for other in names)]
    lines = [title.removeprefix("nexus ") for name in ("shell", "changes") for title in titles(name)]
    missing = {name for name in leaves if not any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert len(leaves) > 80 and missing == LEFT_OUT.keys(), missing ^ LEFT_OUT.keys()


def test_every_recorded_object_has_the_type_that_its_verb_declares() -> None:
    pattern = r"^=== (nexus .*) --json(?: .*)?\n\[exit \d+\]\n(\{\n(?:.*\n)*?\}\n|\{.*\}\n)"
    found: list[str] = []
    seen = set()
    for name in ("shell", "changes"):
        for line, text in re.findall(pattern, (EXPECTED / f"{name}.txt").read_text(encoding="utf-8"), re.MULTILINE):
            if not line.startswith("nexus ask "):
                seen.add(find_verb(line))
                found += problems_of_line(line, json.loads(text.replace('"seconds": N', '"seconds": 0')))
    assert found == []
    told = {"nexus mcp test": "it needs a server", "nexus sessions stop": "it needs a process"}
    left = {f"nexus {name}" for name in LEFT_OUT} | told.keys()
    missing = list_verbs() - seen - left
    assert not missing, f"record each with --json in tests/recorded/command_lines.py: {missing}"


def test_every_method_of_the_server_is_called_or_changes_something() -> None:
    page, _, _ = (EXPECTED / "server.txt").read_text(encoding="utf-8").partition("\n=== list_agents")
    methods = {method["name"] for method in json.loads(page.partition("\n")[2])["methods"]}
    called = {name for name, _ in READERS} & methods
    assert methods - called == CHANGING, methods - called ^ CHANGING


def test_a_difference_is_a_unified_diff() -> None:
    text = (EXPECTED / "help.txt").read_text(encoding="utf-8")
    assert not difference("help", text)
    assert "\n-Usage: nexus [OPTIONS] [COMMAND]\n+Usage: nexus\n" in difference(
        "help", text.replace("nexus [OPTIONS] [COMMAND]\n", "nexus\n", 1)
    )
