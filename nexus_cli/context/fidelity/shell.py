"""What a shell command did to files, for the few commands whose name says it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nexus_cli.context.fidelity.changes import CHANGED, CREATED, DELETED, PATH

LONGEST = 4000
"""Characters of a command line that is read: what is longer is a script."""

_MOST = 200
"""Lines of an output that are looked at."""
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&"})


def touched(command: str, failed: str | None = None) -> Iterator[tuple[str, str]]:
    """Path and state of what a shell command did to files, for the commands that plainly do.

    `failed` is the output of one that did not go well: of a chain joined by `&&` then all but the last step is done
    for certain if no line of it begins with the name of such a step.
    """
    if len(command) > LONGEST:
        return
    # What follows in a here-document is data; other lines are commands of their own.
    script = command.split("\n", 1)[0] if "<<" in command else command.replace("\n", " ; ")
    try:
        lexer = shlex.shlex(script, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return
    steps: list[list[str]] = [[]]
    joints: list[str] = []
    for word in words:
        if word in _SEPARATORS:
            steps.append([])
            joints.append(word)
        else:
            steps[-1].append(word)
    if failed is not None:
        blamed = {line.partition(":")[0] for line in failed.splitlines()[:_MOST]}
        blamed |= {"git"} if "fatal" in blamed else set()
        steps = steps[:-1] if set(joints) == {"&&"} and not any(set(step) & blamed for step in steps[:-1]) else []
    for step in steps:
        yield from _step(step)


def _step(words: list[str]) -> Iterator[tuple[str, str]]:
    targets: list[tuple[str, str]] = []
    while words and ("=" in words[0] or words[0] in ("sudo", "time", "env", "nohup")):
        words = words[1:]
    for position, word in enumerate(words[:-1]):
        if word in (">", ">>") and _is_path(words[position + 1]):
            targets.append((words[position + 1], CREATED if word == ">" else CHANGED))
    cut = next((i for i, word in enumerate(words) if set(word) <= set("<>") and word), len(words))
    words = words[:cut]
    if words[:1] == ["git"] and words[1:2] in (["rm"], ["mv"]):
        words = words[1:]
    name, rest = (words[0], words[1:]) if words else ("", [])
    paths = [word for word in rest if not word.startswith("-") and _is_path(word)]
    match name:
        case "rm" | "unlink" | "rmdir" | "trash":
            yield from ((path, DELETED) for path in paths)
        case "mv" if len(paths) >= 2:
            yield from ((path, DELETED) for path in paths[:-1])
            yield from _arrived(paths)
        case "cp" | "ln" | "install" if len(paths) >= 2:
            yield from _arrived(paths)
        case "touch":
            yield from ((path, CREATED) for path in paths)
        case "tee":
            yield from ((path, CHANGED if "-a" in rest else CREATED) for path in paths)
        case "sed" | "perl" if any(word.startswith(("-i", "-pi", "--in-place")) for word in rest):
            yield from ((path, CHANGED) for path in paths if PATH.fullmatch(path))
        case _:
            pass
    yield from targets


def _arrived(paths: list[str]) -> Iterator[tuple[str, str]]:
    target = paths[-1]
    for path in paths[:-1]:
        name = path.rstrip("/").rpartition("/")[2]
        yield (f"{target.rstrip('/')}/{name}" if target.endswith("/") or len(paths) > 2 else target), CREATED


def _is_path(word: str) -> bool:
    return bool(word) and word[0] not in "&-$(" and not word.startswith("/dev/") and not any(c in word for c in
    "*?\n$(){}")
