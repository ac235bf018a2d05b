"""The result object of a run that a signal ends before its session exists (`nexus docs json`).

Parses the command line without typer, which may not be imported yet or may have failed. Like `process`, it imports only
modules that Python itself has loaded, and `program_words`, which imports none. All other results are made elsewhere.
"""

from __future__ import annotations

import time

from nexus_cli.config.program_words import split_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs as much as Python's own start
    from collections.abc import Sequence

RESULT = (
    '"version": 1, "ok": false, "exit": %d, "text": "", "data": null, "finish": "aborted", "session": null, '
    '"model": null, "steps": 0, "seconds": 0.0, "usage": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, '
    '"reasoning": 0, "cost_usd": 0.0, "cost": {"input": 0.0, "cached": 0.0, "written": 0.0, "output": 0.0}}, '
    '"context": null, "drops": [], "denied": [], "files_changed": [], '
    '"error": {"kind": "aborted", "message": "stopped: received %s", "hint": ""}}\n'
)


def json_form(arguments: Sequence[str]) -> str:
    """Return the option that requests JSON, `--json` or `--stream-json`; "" for none or both."""
    command, options = split_arguments(arguments)
    json_options = [option for option in ("--json", "--stream-json") if option in options]
    return json_options[0] if command == "ask" and len(json_options) == 1 else ""


def signal_result(form: str, status: int, name: str) -> bytes:
    """Return the result object of a signal as a line for stdout; empty without a form."""
    if not form:
        return b""
    head = '{"type": "result", '
    if form == "--stream-json":
        now = time.time()
        timestamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
        head = f'{{"v": 1, "seq": 0, "at": "{timestamp}", "type": "result", '
    return (head + RESULT % (status, name)).encode()
