"""What a message took along is on record, and `/context` and the timeline show it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from session.played import Played, opened, the_ledger

from nexus_cli.commands.context import context_summary
from nexus_cli.commands.forms import find_form
from nexus_cli.core.attachment import AttachedFile, Part, Trigger
from nexus_cli.core.memo_kinds import ATTACHMENTS
from nexus_cli.core.request import Request
from nexus_cli.reports.timeline import session_timeline

FILES = (AttachedFile("a.py", "text", 20, 3, 5, 40), AttachedFile("shot.png", "image/png", 900))
STEERED = AttachedFile("src", "folder", 34, 1, 12)
TEXT = 'look\n\n<file path="a.py" lines="3-5">\nx\n</file>'


def test_the_record_stands_beside_its_message_and_is_shown(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if any(message["role"] == "tool" for message in request.messages):
            return "done"
        session.steer('and this\n\n<folder path="src">\na.py\n</folder>', files=[STEERED])
        return [("glob", {"pattern": "*"})]

    session = opened(Played(script), tmp_path)
    trigger = Trigger(TEXT, parts=(Part("image/png", b"\x89PNG\r\n\x1a\n", "shot.png"),), files=FILES)

    async def turn() -> Mapping[str, Any]:
        async for _ in session.run(trigger):
            pass
        value = context_summary(session)
        await session.aclose()
        return value

    value = asyncio.run(turn())
    with the_ledger() as ledger:
        memos = ledger.log(session.id).memos(ATTACHMENTS)
        told = session_timeline(ledger, session.id, 100)
    records = [one.to_json() for one in FILES]
    assert [memo.value["files"] for memo in memos] == [records, [STEERED.to_json()]]
    assert value["attachments"] == [
        *({"entry": memos[0].entry, **one} for one in records),
        {"entry": memos[1].entry, **STEERED.to_json()},
    ]
    assert records[0] == {"path": "a.py", "type": "text", "bytes": 20, "lines": [3, 5], "of": 40}
    for width in (80, 40):
        short, whole = (find_form(form)(value, width) for form in ("context_summary", "context"))
        for named in ("a.py:3-5, 3 lines, 20 bytes", "shot.png, an image, 900 bytes", "src, 12 names, 34 bytes"):
            assert named in " ".join(short.split()) and named.partition(",")[0] in whole
    rows = {row["entry"]: row for row in told["rows"] if row.get("attached")}
    assert {entry: row["attached"] for entry, row in rows.items()} == {
        memo.entry: memo.value["files"] for memo in memos
    }
    lines = find_form("timeline")(told, 100).splitlines()
    place = next(place for place, line in enumerate(lines) if line.endswith(": look"))
    assert lines[place + 1].strip() == "with a.py:3-5, 3 lines, 20 bytes; shot.png, an image, 900 bytes"


async def test_a_message_without_files_has_no_record(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "fine"), tmp_path)

    async for _ in session.run("hello"):
        pass
    value = context_summary(session)
    await session.aclose()
    assert value["attachments"] == [] and "Attached" not in find_form("context_summary")(value, 80)
    with the_ledger() as ledger:
        assert not ledger.log(session.id).memos(ATTACHMENTS)
