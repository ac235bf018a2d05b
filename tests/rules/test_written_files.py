"""What a line plainly writes, against deny and ask rules for edits."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules.rows import decide

from nexus_cli.core.limits import Decision
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.tools.registry import discover_tools

TOOLS = discover_tools()
LEVELS: tuple[str, ...] = ("ask", "edit", "auto", "all")
WRITES = (
    "echo x > locked/z",
    "echo x >| y.lock",
    "cp a locked/c",
    "cp -t locked a",
    "sed -i s/a/b/ locked/b",
    "cd locked && echo x > d",
    "tee locked/e < a",
    "rm -rf ./locked/*",
    "mv a x.lock",
    "git checkout -- locked",
    "dd if=a of=LOCKED/q",
    "sort -o locked/x a",
    "ls; { echo x; } >> locked/z",
)
"""Lines that Claude Code refuses too, but for those of git, dd and sort."""
FREE = ("cp locked/b a", "sed s/a/b/ locked/b", "cat locked/b > a", "python3 locked/b", "echo x > a; cd locked", "rm a")


@pytest.mark.parametrize("line", WRITES)
def test_a_line_that_plainly_writes_a_denied_path_is_refused_at_every_level(tmp_path: Path, line: str) -> None:
    (tmp_path / "locked").mkdir()
    for decision in ("deny", "ask"):
        found = decide_at_all_levels(line, tmp_path, decision)
        assert found == ([decision] * 4 if decision == "deny" else ["ask", "ask", "ask", "allow"]), line


@pytest.mark.matrix
@pytest.mark.parametrize("line", FREE)
def test_a_line_that_reads_it_or_writes_elsewhere_is_as_free_as_without_the_rule(tmp_path: Path, line: str) -> None:
    (tmp_path / "locked").mkdir()
    plain = [decide(line, tmp_path, level, RuleSet()).decision for level in LEVELS]
    assert decide_at_all_levels(line, tmp_path, "deny") == plain


def decide_at_all_levels(line: str, folder: Path, decision: Decision) -> list[str]:
    rules = RuleSet(tuple(parse_rule(decision, text, TOOLS) for text in ("edit_file(locked/**)", "edit_file(*.lock)")))
    return [decide(line, folder, level, rules).decision for level in LEVELS]
