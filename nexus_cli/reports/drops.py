"""Text of drops: the list, and one with its content."""

from __future__ import annotations

from typing import NotRequired

from nexus_cli.core.drop_list import DropsReport, window_drops
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.sessions import SHOWN_ID
from nexus_cli.reports.text.blocks import Blocks, Table, Verbatim
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import name_cause, plural


class DropReport(VersionedReport):
    """The original content of a drop."""

    id: str
    what: str
    tokens: NotRequired[int]
    cause: NotRequired[str]
    text: str
    start: int
    """The range of characters."""
    end: int
    total: int


BACK = "back in the window"
"""Note for a drop whose messages are in the window again."""


def session_drops(ledger: Ledger, session: str) -> DropsReport:
    """Return the drops of a session in the ledger, which need not be open in this process."""
    log = ledger.log(session)
    drops = log.drops()
    epoch = log.current_epoch() if drops else None
    items = [*epoch.head, *map(WindowItem.of, log.read(epoch.base + 1, log.last_id()))] if epoch else []
    return window_drops(session, drops, items, log.memos, epoch.sections if epoch else "")


def drops_text(value: JsonObject) -> Blocks:
    """List every drop of a session, with the command that reads it.

    For a shell `shell` is the id that must be part of the command, "" for the folder's newest session.
    """
    drops, session = value["drops"], value.get("shell")
    if not drops:
        yield "Nothing was left out."
        return
    out = [d for d in drops if not d.get("back")]
    columns = {
        "id": "id",
        "tokens": lambda drop: drop.get("tokens"),
        "cause": lambda drop: name_cause(drop.get("cause")),
        "recalled": lambda drop: f"{drop['recalls']} x" if drop.get("recalls") else "-",
        "what": describe_drop,
    }
    yield Table(columns, drops)
    again = sum(1 for d in out if d.get("recalls"))
    sentence = asked_again(again, len(out), len(drops))
    sentence += describe_missed(value) if session is None else ""
    yield from ["", f"{sentence[0].upper()}{sentence[1:]}. Tokens are estimated."]
    beyond = sum(d.get("uncounted_bytes") or 0 for d in drops)
    if beyond:
        yield f"nexus did not keep {beyond:,} bytes beyond the size limits of files and outputs."
    first = drops[0]["id"]
    session_option = f" --session {session[-SHOWN_ID:]}" if session else ""
    yield from ["", name_commands(f"`nexus drops show {first}{session_option}` prints the first drop.")]


def asked_again(again: int, out: int, drops: int) -> str:
    """Count the drops still left out that were recalled, and those of all `drops` that are back."""
    if not out:
        return f"nothing is left out now: {'the drop is' if drops == 1 else f'all {drops:,} are'} {BACK}"
    return f"{again:,} of {out:,} recalled" + (f", {drops - out:,} {BACK}" if drops > out else "")


def describe_missed(value: JsonObject) -> str:
    """Say how many drops the status line counts, "" if all that are left out."""
    missed = value.get("missed")
    is_same = missed in (None, value.get("left_out"))
    return "" if is_same else f"; the status line counts {missed:,} (without tool outputs)"


def describe_drop(drop: JsonObject) -> str:
    """Describe a drop, or that it is back in the window."""
    return f"{BACK}: {drop['what']}" if drop.get("back") else str(drop["what"])


def drop_text(value: JsonObject) -> Blocks:
    """Show one drop: the range of characters, then the text."""
    start, end, total = value["start"], value["end"], value["total"]
    head = f"{value['id']}: {value['what']}"
    if value.get("tokens") is not None:
        head += f", {plural(value['tokens'], 'token')} ({name_cause(value['cause'])})"
    yield from [head, f"characters {start:,} to {end:,} of {total:,}", ""]
    yield Verbatim(value["text"].removesuffix("\n"))
    if end < total:
        yield from ["", f"`/drops {value['id']} {end}:` shows more."]
