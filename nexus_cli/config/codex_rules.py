"""Read rules of codex, `prefix_rule(pattern=[...], decision="...")`, without running anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from itertools import product
from math import prod

from nexus_cli.core.limits import Decision

CODEX_DECISIONS: Mapping[str, Decision] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
MOST = 1000
"""Most commands of one rule."""


def read_codex_rules(text: str | bytes) -> tuple[list[tuple[Decision, str]], list[str]]:
    """Return decision and command (`git push *`) of each rule, and a reason for each statement that is none."""
    rules: list[tuple[Decision, str]] = []
    problems: list[str] = []
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [], [f"cannot be parsed ({error})"]
    for line in body:
        try:
            rules += _read_rule(line)
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            problems.append(f"line {line.lineno}: {error}")
    return rules, problems


def _read_rule(line: ast.stmt) -> list[tuple[Decision, str]]:
    match line:
        case ast.Expr(ast.Call(ast.Name("prefix_rule"), [], keywords)):
            given = {"decision": "allow", **{one.arg: ast.literal_eval(one.value) for one in keywords}}
        case _:
            raise ValueError("it is not a prefix_rule")
    choices = [one if isinstance(one, list) else [one] for one in given["pattern"]]
    if not choices or not 0 < prod(map(len, choices)) <= MOST:
        raise ValueError(f"it names no command, or more than {MOST:,}")
    decision = CODEX_DECISIONS[given["decision"]]
    return [(decision, f"{' '.join(map(_quote, words))} *") for words in product(*choices)]


def _quote(word: object) -> str:
    if not isinstance(word, str) or not re.fullmatch(r"[\w./:=@%+,-]+", word):
        raise ValueError(f"{word!r} is not a plain word")
    return word
