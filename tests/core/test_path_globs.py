"""Patterns that take a backtracking matcher for ever, each in a process that is ended when it hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from search import sample

LONG = "a" * 250
HOSTILE = {
    "stars in a rule": ("rule", "*a" * 20 + "b", LONG),
    "folders in a rule": ("rule", "**/a" * 6 + "/b", "a/" * 200 + "a"),
    "text over folders in a rule": ("rule", "**a" * 6 + "b", "a/" * 120 + "a"),
    "stars in a pattern of glob": ("glob", "*a" * 20 + "b", LONG),
    "folders in a pattern of glob": ("glob", "**/a/" * 40 + "b", "a/" * 200 + "a"),
    "braces in a pattern of glob": ("glob", "{" * 100_000 + "a", LONG),
    "choices in a pattern of glob": ("glob", "{a,b}" * 8 + "*a" * 100 + "c", LONG),
    "a long pattern of glob": ("glob", "{a,}/" * 100_000, LONG),
}
PROGRAM = """
import sys
from pathlib import Path
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.patterns import PathPattern
from nexus_cli.tools.registry import discover_tools
kind, pattern, path = sys.stdin.read().split("\\n")
if kind == "rule":
    rules = RuleSet((parse_rule("deny", f"read_file({pattern})", discover_tools()),))
    found = rules.find_for_path(discover_tools()["read_file"], [Path("/p", path)], Path("/p"))
else:
    try:
        found = PathPattern(pattern).select([path])
    except ToolError:
        found = None
print("matches" if found else "no match")
"""


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(HOSTILE, 2))
def test_no_pattern_hangs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(HOSTILE[name]),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.stdout == "no match\n", done.stderr
