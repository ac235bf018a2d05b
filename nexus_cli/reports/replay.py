"""Text of `nexus replay`."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject, ReportOfSession
from nexus_cli.reports.text.blocks import Blocks
from nexus_cli.reports.text.lines import plural


class ReplayReport(ReportOfSession):
    """The comparison of rebuilt requests with those that were sent."""

    ok: bool
    requests: int
    first_difference: str | None


def replay_text(value: JsonObject) -> Blocks:
    """Return one sentence; on the command line on one line, for `grep`."""
    session, count = value["session"], value["requests"]
    if not value["ok"]:
        text = f"Session {session} differs from what was sent: {value['first_difference']}"
    elif not count:
        text = f"Session {session} has not sent a request, so there is nothing to compare."
    else:
        text = f"nexus rebuilt {plural(count, 'request')} of session {session}: identical to what was sent."
    return [text]
