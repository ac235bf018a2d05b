"""Tables of command lines, and the decision on a line as the tests ask for it."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.rules.decide import CommandDecision, decide_command
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.tools.registry import discover_tools

HERE = Path(__file__).parent
TOOLS = discover_tools()
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


def decide(command: str, folder: Path, level: str = "ask", rules: RuleSet = DENIED) -> CommandDecision:
    return decide_command(command, level=level, rules=rules, cwd=folder, project=folder, confined=True)
