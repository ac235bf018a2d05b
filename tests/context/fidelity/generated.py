"""Histories made from templates with a seed, and a summariser that loses and corrupts what it is told to keep."""

from __future__ import annotations

import random
from collections.abc import Sequence

from nexus_cli.context.fidelity import Commitment, CommitmentKind
from nexus_cli.core.message import Message, Role, ToolCall


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


THINGS = _words(
    "parser scheduler importer exporter renderer gateway cache mailer indexer planner resolver tokenizer worker ledger "
    "session router uploader archive monitor billing"
)
PARTS = _words("retries timeouts headers locking paging encoding logging caching ordering rounding")
RULES = (
    "Never change the public names of the {thing}.",
    "The {thing} must keep working on Python 3.{n}.",
    "Don't add new dependencies to the {thing}.",
    "Please keep the {thing} under {n}00 lines.",
    "Always run the {part} tests before you commit the {thing}.",
    "I prefer small functions in the {thing}, at most {n} lines each.",
)
WRONG = (
    "No, I meant the {part} of the {thing}, not the ones of the {other}.",
    "That's wrong, the {thing} listens on port 8{n}1.",
    "Actually the {part} of the {thing} come from the {other}.",
)
ASKED = ("Should I also migrate the {part} of the {thing}?", "Which {part} of the {thing} do you prefer?")
STEPS = ("Move the {part} of the {thing} into a module of its own", "Write a test for the {part} of the {thing}")
TRIED = (
    "I tried to cache the {part} in the {thing}, but that broke the {other}.",
    "Wrapping the {thing} in the {other} didn't work because the {part} differ.",
)
TOLD = ("The {thing} is described in ticket {up}-{n}4{n}.", "It runs at https://{thing}.example.com/v{n} for now.")
FAILURES = ("ValueError: {thing} has no {part} at {n}", "KeyError: '{thing}_{part}_{n}'")


class History:
    """Messages of one invented session."""

    def __init__(self, seed: int, turns: int) -> None:
        self._random = random.Random(seed)
        self._calls = 0
        self.messages: list[Message] = []
        for _ in range(turns):
            self._turn()

    def numbered(self) -> list[tuple[int, Message]]:
        """The messages with entry ids."""
        return list(enumerate(self.messages, 1))

    def _text(self, templates: Sequence[str]) -> str:
        pick = self._random.choice
        thing = pick(THINGS)
        values = {"thing": thing, "up": thing[:4].upper(), "part": pick(PARTS), "other": pick(THINGS)}
        return pick(templates).format(n=self._random.randint(2, 9), **values)

    def _say(self, role: Role, *texts: str) -> None:
        self.messages.append(Message(role, "\n\n".join(texts)))

    def _call(self, name: str, arguments: dict[str, object], result: str) -> None:
        self._calls += 1
        call = ToolCall(f"c{self._calls}", name, arguments)
        self.messages.append(Message(Role.ASSISTANT, "", (call,)))
        self.messages.append(Message(Role.TOOL, result, tool_call_id=call.id))

    def _turn(self) -> None:
        rnd = self._random
        self._say(Role.USER, f"Please have a look at the {rnd.choice(THINGS)}.", self._text(RULES), self._text(TOLD))
        for _ in range(rnd.randint(2, 4)):
            self._step()
        steps = "\n".join(f"- {self._text(STEPS)}" for _ in "ab")
        self._say(Role.ASSISTANT, self._text(TRIED), f"Next steps:\n{steps}")
        self._say(Role.USER, self._text(WRONG))
        self._say(Role.ASSISTANT, "The change is in place.", self._text(ASKED))

    def _step(self) -> None:
        rnd, number = self._random, self._random.randint(10, 99)
        path = f"src/{rnd.choice(THINGS)}/{rnd.choice(PARTS)}_{number}.py"
        kind = rnd.random()
        if kind < 0.4:
            self._call("edit_file", {"path": path, "edits": []}, "@@ -1,2 +1,2 @@\n-a = 1\n+a = 2")
        elif kind < 0.55:
            self._call("write_file", {"path": path, "content": f"a = {number}\n"}, f"created {path}, 1 lines")
        elif kind < 0.6:
            self._call("bash", {"command": f"rm {path}"}, "[exit status 0]")
        elif kind < 0.8:
            self._call("bash", {"command": f"pytest -q {path}"}, f"{number} passed in 0.1s\n[exit status 0]")
        else:
            trace = f'Traceback (most recent call last):\n  File "{path}", line 3, in run\n{self._text(FAILURES)}'
            self._call("bash", {"command": f"python {path}"}, f"{trace}\n[exit status 1]")


def sentence(found: Commitment) -> str:
    """How a summariser that keeps a commitment words it."""
    match found.kind:
        case CommitmentKind.FILE:
            return f"- `{found.text}` was {found.state}."
        case CommitmentKind.COMMAND:
            return f"- Ran `{found.text}` (exit status {found.exit})."
        case CommitmentKind.IDENTIFIER:
            return f"- It works with {found.about}."
        case _:
            return f"- {found.kind}: {found.text}"


def corrupted(text: str, rnd: random.Random) -> str:
    """`text` with one digit changed, or a letter inside a longer word where it has no digit."""
    digits = [i for i, letter in enumerate(text) if letter.isdigit()]
    if digits:
        at = rnd.choice(digits)
        return text[:at] + str((int(text[at]) + rnd.randint(1, 8)) % 10) + text[at + 1 :]
    words = [word for word in text.split() if word.isalpha() and len(word) > 6]
    if not words:
        return text[::-1]
    word = rnd.choice(words)
    return text.replace(word, word[:2] + word[2:][::-1])


def summarised(found: Sequence[Commitment], seed: int, lost: float = 0.5, broken: float = 0.05) -> str:
    """A summary that loses each commitment with probability `lost` and corrupts `broken` of all."""
    rnd = random.Random(seed)
    lines = []
    for commitment in found:
        chance = rnd.random()
        if chance >= lost + broken:
            lines.append(sentence(commitment))
        elif chance >= lost:
            lines.append(corrupted(sentence(commitment), rnd))
    return "\n".join(lines)
