"""Read rules of codex, `prefix_rule(pattern=[...], decision="...")`, without running anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from math import prod

from nexus_cli.core.limits import Decision

CODEX_DECISIONS: Mapping[str, Decision] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
MOST = 1000
"""Most commands of one file."""
LARGEST = 64 * 1024
"""Most bytes of one file."""


@lru_cache(32)
def read_codex_rules(text: str | bytes) -> tuple[tuple[tuple[Decision, str], ...], tuple[str, ...]]:
    """Return decision and command (`git push *`) of each rule, and a reason for each statement that is none."""
    if len(text) > LARGEST:
        return (), (f"is larger than {LARGEST // 1024} KiB",)
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return (), (f"cannot be parsed ({error})",)
    rules, problems = list[tuple[Decision, str]](), list[str]()
    for line in body:
        try:
            rules += _read_rule(line, MOST - len(rules))
        except ValueError as error:
            problems.append(f"line {line.lineno}: {error}")
    return tuple(rules), tuple(problems)


def _read_rule(line: ast.stmt, most: int) -> list[tuple[Decision, str]]:
    """Return the rules of a statement, at most `most`. Raises `ValueError`, which says what is wrong."""
    match line:
        case ast.Expr(ast.Call(ast.Name("prefix_rule"), [], keywords)):
            arguments = {keyword.arg: _read_constant(keyword.value) for keyword in keywords}
        case _:
            raise ValueError("only prefix_rule is supported")
    pattern, decision = arguments.get("pattern"), arguments.get("decision", "allow")
    if not isinstance(decision, str) or decision not in CODEX_DECISIONS:
        raise ValueError(f"`decision` must be one of {', '.join(CODEX_DECISIONS)}")
    choices = [part if isinstance(part, list) else [part] for part in pattern] if isinstance(pattern, list) else []
    if not choices or not all(choices):
        raise ValueError("`pattern` must be a non-empty list of words")
    if prod(map(len, choices)) > most:
        raise ValueError(f"the file has more than {MOST:,} commands")
    return [(CODEX_DECISIONS[decision], f"{' '.join(map(_check_word, words))} *") for words in product(*choices)]


def _read_constant(value: ast.expr) -> object:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError("an argument is not a constant") from None


def _check_word(word: object) -> str:
    if not isinstance(word, str) or not re.fullmatch(r"[\w./:=@%+,-]+", word):
        raise ValueError(f"{word!r} must be a string of letters, digits and _./:=@%+,-")
    return word
