"""Command lines and the decision that each must get: `rules.tsv`, with the deny rules that its header names."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.rules.decide import CommandDecision, Level, decide_command
from nexus_cli.rules.rule_set import RuleSet, parse_rule

HERE = Path(__file__).parent
TOOLS = ("bash", "read_file", "write_file", "edit_file")
DENIED = RuleSet(tuple(parse_rule("deny", text, TOOLS) for text in ("bash(rm *)", "bash(curl *)", "bash(git push *)")))


def read_rows(name: str) -> list[tuple[str, ...]]:
    """Return the rows of a table beside this file, escapes of `E:` decoded."""
    rows = []
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            command, *rest = line.split("\t")
            if command.startswith("E:"):
                command = command[2:].encode("latin-1", "backslashreplace").decode("unicode_escape")
            rows.append((command, *rest))
    return rows


def decide(command: str, folder: Path, level: Level = "read", rules: RuleSet = DENIED) -> CommandDecision:
    return decide_command(command, level=level, rules=rules, cwd=folder, project=folder, confined=True)


@pytest.mark.parametrize("name", ["rules.tsv", "further.tsv"])
def test_every_row_gets_its_decision(name: str, tmp_path: Path) -> None:
    rows = read_rows(name)
    found = {command: decide(command, tmp_path) for command, *_ in rows}
    wrong = [
        f"{command[:100]!r}: {found[command].decision} ({found[command].why}), not {expected}"
        for command, expected, *_ in rows
        if found[command].decision != expected
    ]
    assert not wrong, "\n".join(wrong)
    assert len(rows) >= 150
