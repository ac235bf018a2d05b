"""What the model says in the recorded sessions."""

from __future__ import annotations

from typing import Any

SHOP = 'PRICE = {"tea": 4}\n\n\ndef total(names):\n    return sum(PRICE[name] for name in names)\n'
SUMMARY = "## Goal\nA shop that sells tea.\n## Done\n- prices were read and raised\n## Next\nWrite the tests.\n"
STORY = "The shop opens at nine and sells tea to whoever comes in, and it keeps a list of what was sold.\n" * 70
"""About 1,500 tokens."""
CUT = {"text": "half of an answer", "chunk": 3, "fault": {"kind": "cut", "after": 3}}


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a step with one call."""
    return calls((tool, arguments))


def calls(*named: tuple[str, Any]) -> dict[str, Any]:
    """Return a step with several calls; arguments may be raw text."""
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


def rule(then: Any, **when: Any) -> dict[str, Any]:
    """Return a rule: what answers a request of which `when` holds."""
    return {"when": when, "then": then}
