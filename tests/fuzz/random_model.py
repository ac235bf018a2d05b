"""A scripted model that answers at random: text, slow and broken streams, errors, right and wrong calls of tools."""

from __future__ import annotations

import random
from typing import Any

from program.stage import calls
from server.fault import KINDS

COMMANDS = (
    "echo out",
    "sleep 1",
    "sleep 0.2; false",
    "cat notes.md",
    "exit 3",
    "printf '\\033[31mred\\007'",
    "seq 3000",
    "seq 90000",
    "echo x >> made.txt",
    "rm -f made.txt",
    "git status",
    "curl -s http://127.0.0.1:9/",
)


def make_call(chance: random.Random) -> tuple[str, Any]:
    """Return a random call of the model, some of them wrong."""
    made: list[tuple[str, Any]] = [
        ("bash", {"command": chance.choice(COMMANDS)}),
        ("bash", {"command": chance.choice(COMMANDS)}),
        ("bash", {"command": "sleep 1; echo late", "background": True}),
        ("read_file", {"path": chance.choice(("notes.md", "nothing", "/etc/hostname"))}),
        ("write_file", {"path": "made.txt", "content": "line\n" * chance.randint(0, 90)}),
        ("edit_file", {"path": "notes.md", "edits": [{"old": "milk", "new": "milk, bread"}]}),
        ("grep", {"pattern": "milk"}),
        ("glob", {"pattern": "**/*"}),
        ("todo", {"items": [{"text": "a thing", "state": chance.choice(("open", "doing", "done"))}]}),
        ("ask_person", {"questions": [{"question": "Which one?", "choices": ["this", "that"]}]}),
        ("agent", {"task": "look at notes.md", "wait": chance.random() < 0.5}),
        ("jobs", {"action": "list"}),
        ("remember", {"text": "the person likes milk"}),
        ("fetch", {"url": "http://127.0.0.1:9/"}),
        ("no_such_tool", {}),
        ("bash", '{"command": "ec'),
    ]
    return chance.choice(made)


def make_reply(chance: random.Random) -> dict[str, Any]:
    """Return a random reply of the model."""
    match chance.randint(0, 11):
        case 0:
            return {"text": "slow words ", "repeat": chance.randint(5, 60), "pace": 0.03}
        case 1:
            return {
                "text": "```python\nx = 1\n```\n| a | b |\n|---|---|\n| 1 | \u4f60\u597d |\n\n- [x](http://x)\n\x1b[2J\u202e"
            }
        case 2:
            return {"thinking": "let me see " * chance.randint(1, 30), "text": "I see.", "pace": 0.005}
        case 3:
            return {"text": "half of it", "fault": {"kind": chance.choice(list(KINDS)), "seconds": chance.random() * 2}}
        case 4:
            return {"fault": {"status": chance.choice((400, 401, 404, 429, 500, 503)), "retry_after": 1}}
        case 5 | 6 | 7 | 8 | 9:
            return {"text": "", **calls(*(make_call(chance) for _ in range(chance.choice((1, 1, 2, 5)))))}
        case _:
            return {"text": "answer", "numbered": True, "delay": chance.random()}
