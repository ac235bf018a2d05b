"""What the commands print is what was recorded: help, reports as text and as JSON, mistakes, slash commands, server."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from json_shape import find_verb, list_verbs, problems_of_line, problems_of_result
from programs import need
from recorded.command_lines import LEFT_OUT
from recorded.outputs import (
    CHANGING,
    EXPECTED,
    PARTS,
    READERS,
    difference,
    list_one_of_each,
    number_anew,
    read_expected,
    record,
    shorten,
)
from search import variant

RENEW = "If this is what was meant: python tests/recorded/outputs.py write, and a line in CHANGELOG.md"

MOST = 80
"""Lines of a difference that a failing test prints."""


@pytest.fixture(scope="module")
def texts(in_gate: bool) -> dict[str, tuple[str, str]]:
    """What was expected and what was recorded, by the name of the file; in the gate a short recording."""
    need("cc")
    if not sys.platform.startswith("linux"):
        pytest.skip("the clock of a recording needs Linux")
    texts = record([name for name in PARTS if name != "changes"] if in_gate else PARTS, is_short=in_gate)
    expected, found = (shorten(texts), number_anew(texts)) if in_gate else ({n: read_expected(n) for n in PARTS}, texts)
    return {name: (expected[name], found[name]) for name in texts}


@pytest.mark.parametrize("name", [variant(name) if name == "changes" else name for name in PARTS])
def test_the_commands_print_what_was_recorded(texts: dict[str, tuple[str, str]], name: str) -> None:
    expected, text = texts[name]
    found = difference(name, text, expected).splitlines()
    more = f"... {len(found) - MOST:,} more lines; all: python tests/recorded/outputs.py compare {name}\n"
    assert not found, "\n".join([*found[:MOST], more * (len(found) > MOST) + RENEW])


def test_a_short_recording_has_a_line_of_each_command() -> None:
    lines = [["sessions"], ["sessions", "--json"], ["model", "show", "fast"], ["model", "show", "fast", "--json"]]
    assert list_one_of_each(lines) == [["sessions"], ["model", "show", "fast", "--json"]]
    assert list_one_of_each([*lines, ["model", "use", "fast"]], 1) == [["sessions"], ["model", "show", "fast"]]
    ids = "SESSION-000000000000000007 ID0003 SESSION-000000000000000003"
    anew = {"a": "SESSION-000000000000000001 ID0002 SESSION-000000000000000002", "b": "ID0001"}
    assert number_anew({"a": ids, "b": "ID0007"}) == anew


def titles(name: str) -> list[str]:
    """Return the titles of the blocks of an expected file."""
    return re.findall(r"^=== (.*)", (EXPECTED / f"{name}.txt").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_command_is_run_or_left_out_with_a_reason() -> None:
    names = [title.removeprefix("nexus ").removesuffix(" --help") for title in titles("help")[2:]]
    leaves = [name for name in names if not any(other.startswith(f"{name} ") for other in names)]
    lines = [title.removeprefix("nexus ") for name in ("shell", "changes") for title in titles(name)]
    missing = {name for name in leaves if not any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert len(leaves) > 80 and missing == LEFT_OUT.keys(), missing ^ LEFT_OUT.keys()


def read_json(text: str) -> Any:
    """Return the value of a recorded text, in which a number that differs is `N`."""
    return json.loads(re.sub(r'(": )N\b', r"\g<1>0", text))


def test_every_recorded_object_has_the_type_that_its_verb_declares() -> None:
    pattern = r"^=== (nexus .*) --json(?: .*)?\n\[exit \d+\]\n(\{\n(?:.*\n)*?\}\n|\{.*\}\n)"
    found: list[str] = []
    seen = set()
    for name in ("shell", "changes"):
        for line, text in re.findall(pattern, (EXPECTED / f"{name}.txt").read_text(encoding="utf-8"), re.MULTILINE):
            if not line.startswith("nexus ask "):
                seen.add(find_verb(line))
                found += problems_of_line(line, read_json(text))
    assert found == []
    told = {"nexus mcp test": "it needs a server", "nexus sessions stop": "it needs a process"}
    left = {f"nexus {name}" for name in LEFT_OUT} | told.keys()
    missing = list_verbs() - seen - left
    assert not missing, f"record each with --json in tests/recorded/command_lines.py: {missing}"


def test_every_recorded_result_of_the_server_has_the_type_that_its_method_declares() -> None:
    found: list[str] = []
    seen = set()
    for name, text in re.findall(r"^=== (\w+) \{.*\n(\{\n(?:.*\n)*?\}\n)", read_expected("server"), re.MULTILINE):
        answer = read_json(text)
        if "result" in answer:
            seen.add(name)
            found += problems_of_result(name, answer["result"])
    assert found == [] and {name for name, _ in READERS} - seen == {"nothing"}, "which is no method"


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
