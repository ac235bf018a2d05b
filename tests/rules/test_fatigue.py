"""How often a person is asked: 300 commands as coding agents run them, under each level."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules.rows import TOOLS, decide, read_rows

from nexus_cli.rules.rule_set import RuleSet, parse_rule

NONE = RuleSet()
DENIES = RuleSet((parse_rule("deny", "bash(sudo *)", TOOLS), parse_rule("ask", "bash(terraform apply *)", TOOLS)))


def count_asked(rules: RuleSet, level: str, folder: Path) -> list[str]:
    rows = read_rows("corpus.tsv")
    return [row[0] for row in rows if decide(row[0], folder, level, rules).decision != "allow"]


def test_few_commands_ask_at_auto(tmp_path: Path) -> None:
    rows = read_rows("corpus.tsv")
    assert len(rows) >= 300
    for rules in (NONE, DENIES):
        asked = count_asked(rules, "auto", tmp_path)
        assert len(asked) <= len(rows) * 0.05, asked


@pytest.mark.matrix
def test_fewer_commands_ask_at_ask_than_with_peers(tmp_path: Path) -> None:
    rows = read_rows("corpus.tsv")
    asked = count_asked(NONE, "ask", tmp_path)
    codex, claude = (sum(row[column] == "ask" for row in rows) for column in (1, 2))
    print(f"of {len(rows)}: ask {len(asked)}, auto {len(count_asked(NONE, 'auto', tmp_path))}, {codex=}, {claude=}")
    assert len(asked) <= min(codex, claude)
    free_elsewhere = {row[0] for row in rows if row[1] == "allow"} - {row[0] for row in rows if row[0] not in asked}
    assert not free_elsewhere, "Codex runs these unasked"
