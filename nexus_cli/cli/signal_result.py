"""The result object of a run that a signal ends before its session exists (`nexus docs json`).

Parses the command line without typer, which may not be imported yet or may have failed. Like `process`, it imports only
modules that Python itself has loaded. All other results are made elsewhere.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs as much as Python's own start
    from collections.abc import Sequence

VALUED = frozenset(
    """
    --model -m --effort --resume -r --cd -C --recipe --allow --worktree -w --file -f --max-steps
    --max-total-tokens --max-cost --timeout --until --schema --watch-lines --watch-pause --add-dir --connect
    --token-file --max-input --max-input-tokens --max-drop --require-section
    """.split()
)
"""Options of `nexus` and `nexus ask` whose value is the next word."""
RESULT = (
    '"version": 1, "ok": false, "exit": %d, "text": "", "data": null, "finish": "", "session": null, "model": null, '
    '"steps": 0, "seconds": 0.0, "usage": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, '
    '"reasoning": 0, "cost_usd": 0.0}, "context": null, "drops": [], "denied": [], "files_changed": [], '
    '"error": {"kind": "aborted", "message": "stopped: %s arrived", "hint": ""}}\n'
)


def json_form(arguments: Sequence[str]) -> str:
    """Return the option that requests JSON, `--json` or `--stream-json`; "" for none or both."""
    words = plain_words(arguments)
    command = _command(words)
    wanted = [option for option in ("--json", "--stream-json") if option in words]
    return wanted[0] if command == "ask" and len(wanted) == 1 else ""


def is_one_shot(arguments: Sequence[str]) -> bool:
    """True for `nexus ask`, and for plain `nexus`, which is the same with piped stdin."""
    words = plain_words(arguments)
    return _command(words) in ("ask", "") and not {"--help", "-h", "--version"} & set(words)


def plain_words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments before `--`, without options that take a value and those values."""
    words = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            break
        if word in VALUED:
            next(rest, None)
        else:
            words.append(word)
    return words


def _command(words: Sequence[str]) -> str:
    return next((word for word in words if word[:1] != "-"), "")


def signal_result(form: str, status: int, name: str) -> bytes:
    """Return the result object of a signal as a line for stdout; empty without a form."""
    if not form:
        return b""
    head = '{"type": "result", '
    if form == "--stream-json":
        now = time.time()
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
        head = f'{{"v": 1, "seq": 0, "at": "{at}", "type": "result", '
    return (head + RESULT % (status, name)).encode()
