"""The laws as functions over one session: what the server received beside what the ledger has. Pure readers.

Owns the checks; what was played is `laws.play`. Each raises `AssertionError` that names what is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.conftest import on
from server.blocks import first_difference, is_prefix
from server.received import Received

from nexus_cli.core.entry import Entry, ItemForm, Kind, format_transcript
from nexus_cli.core.message import Role
from nexus_cli.ledger import Ledger, RequestRow
from nexus_cli.reports.check_replay import check as replayed

FAILED = ("interrupted", "lost", None)
"""How a request may have ended that never reached the server."""
NAMED = re.compile(r'recall\(\\?"(d\d+)\\?"')


@dataclass(frozen=True)
class Sent:
    """One request row and what the server received of it."""

    row: RequestRow
    tries: tuple[Received, ...]
    """The same request, over again after a refusal; empty where it was interrupted on its way."""

    @property
    def blocks(self) -> list[str]:
        """The content blocks as the server saw them."""
        return [block.line for block in self.tries[0].content]


def line(value: Any) -> bytes:
    """One canonical line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def wire_sha256(body: Mapping[str, Any]) -> str:
    """The hash of a request, computed from a captured Chat Completions body alone."""
    messages = list(body["messages"])
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
    digest = hashlib.sha256(line(body.get("tools", [])) + line(system))
    for message in messages:
        digest.update(line(message))
    return digest.hexdigest()


def rows(ledger: Ledger, session: str) -> list[RequestRow]:
    """Every request of every lane, in the order in which they were sent."""
    found = [row for log in ledger.logs(session) for row in log.requests()]
    return sorted(found, key=lambda row: row.manifest.at)


def matched(ledger: Ledger, session: str, received: Sequence[Received]) -> list[Sent]:
    """Every row with what was received of it; every received request has a row."""
    return _by_hash(rows(ledger, session), received) if _chat(received) else _by_time(rows(ledger, session), received)


def _chat(received: Sequence[Received]) -> bool:
    return all(request.form == "chat" for request in received)


def _by_hash(found: list[RequestRow], received: Sequence[Received]) -> list[Sent]:
    arrived: dict[str, list[Received]] = {}
    for request in received:
        arrived.setdefault(wire_sha256(request.body), []).append(request)
    known = {row.manifest.sha256 for row in found}
    strange = [request.number for sha, several in arrived.items() if sha not in known for request in several]
    assert not strange, f"requests without a row of the same hash: {strange} of {len(received)}"
    made = []
    for sha in dict.fromkeys(row.manifest.sha256 for row in found):
        same = [row for row in found if row.manifest.sha256 == sha]
        tries = arrived.get(sha, [])
        assert tries or all(row.finish in FAILED for row in same), f"row {same[0]} was never received"
        for row in same:
            mine = [one for one in tries if one.body["max_tokens"] == row.manifest.arguments["max_output"]]
            made.append(Sent(row, tuple(mine or tries)))
    return sorted(made, key=lambda sent: sent.row.manifest.at)


def _by_time(found: list[RequestRow], received: Sequence[Received]) -> list[Sent]:
    left = list(received)
    made = []
    for row in found:
        assert left, f"row {row} was never received"
        tries = [left.pop(0)]
        while left and tries[-1].status in (429, 500, 503) and left[0].raw == tries[-1].raw:
            tries.append(left.pop(0))
        made.append(Sent(row, tuple(tries)))
    assert not left, f"{len(left)} requests without a row"
    return made


def assert_retries_repeat(sent: Iterable[Sent]) -> None:
    """Every try of one request has the same bytes."""
    for one in sent:
        assert len({request.raw for request in one.tries}) <= 1, f"a retry of {one.row} has other bytes"


def assert_prefix_law(sent: Sequence[Sent], main: int) -> None:
    """Law 1, on the wire."""
    newest: dict[tuple[int, int], list[str]] = {}
    for one in sent:
        if not one.tries:
            continue
        key = (one.row.lane, one.row.manifest.epoch)
        before = newest.get(key, newest.get((main, key[1])) if key not in newest else None)
        now = one.blocks
        if before is not None:
            where = f"lane {key[0]}, epoch {key[1]}, step {one.row.manifest.step}"
            assert is_prefix(before, now), f"{where}: {first_difference(before, now)}"
        newest[key] = now


def tool_parts(request: Received) -> list[tuple[str, str]]:
    """`call` and `result` with the id that ties them (Gemini: the name), and `other`, in the order of the wire."""
    parts = []
    for block in request.content:
        value = block.value if isinstance(block.value, dict) else {}
        if block.role in ("tools", "system"):
            continue
        if value.get("type") in ("function", "tool_use"):
            parts.append(("call", value["id"]))
        elif "functionCall" in value or "function_call" in value:
            parts.append(("call", (value.get("functionCall") or value["function_call"])["name"]))
        elif block.role == "tool":
            answer = value.get("functionResponse") or value.get("function_response") or {}
            parts.append(("result", value.get("tool_call_id") or value.get("tool_use_id") or answer.get("name")))
        else:
            parts.append(("other", ""))
    return parts


def assert_pair_law(received: Iterable[Received]) -> None:
    """Law 3, on the wire."""
    for request in received:
        waiting: list[str] = []
        answered = False
        for what, key in tool_parts(request):
            if what == "result":
                assert waiting and waiting.pop(0) == key, f"request {request.number}: an orphan or late result {key}"
                answered = bool(waiting)
            else:
                assert not answered, f"request {request.number}: {what} {key} in the middle of results"
                assert not waiting or what == "call", f"request {request.number}: calls without results: {waiting}"
                waiting += [key] * (what == "call")
        assert not waiting, f"request {request.number} ends with calls without results"


def assert_request_law(ledger: Ledger, main: int, sent: Iterable[Sent]) -> None:
    """Law 4: the run's words and its steering, by their first word, in every request of the run."""
    entries = on(ledger, main).read(1, on(ledger, main).last_id())
    for one in sent:
        if not one.tries:
            continue
        spoken = [b for b in one.tries[0].content if b.role not in ("tools", "system")]
        assert spoken[0].role == "user", f"the first message of {one.row} is not the user's"
        if one.row.lane != main:
            continue
        text = "\n".join(block.text for block in spoken)
        missing = [token for token in current_words(entries, one.row.manifest.last) if token not in text]
        assert not missing, f"step {one.row.manifest.step} of the main lane has lost {missing}"


def current_words(entries: Sequence[Entry], last: int) -> list[str]:
    """The first words of the request in force after entry `last`, and of its steering."""
    said: list[str] = []
    for entry in entries[:last]:
        if entry.kind is Kind.USER:
            said = []
        if entry.kind in (Kind.USER, Kind.STEER):
            said.append(entry.message.content.split()[0])
    return said


def assert_nothing_lost(ledger: Ledger, session: str, received: Iterable[Received]) -> None:
    """Law 5: all entries there, every hole covered by a drop, every drop readable, every marker true."""
    info = ledger.session(session)
    last = ledger.log(info.id).last_id()
    entries = ledger.log(info.id).read(1, last)
    assert [entry.id for entry in entries] == list(range(1, last + 1))
    drops = {drop.id: drop for drop in ledger.log(session).drops()}
    for name, drop in drops.items():
        text = ledger.log(session).original(name)
        assert text, f"{name} cannot be read"
        assert drop.tokens >= 0
        if drop.entries:
            assert text == format_transcript(entries[drop.entries[0] - 1 : drop.entries[1]])
    for request in received:
        named = {name for block in request.content for name in NAMED.findall(block.text)} - {"d1", "d999"}
        assert named <= set(drops), f"request {request.number} names drops that are not there: {named - set(drops)}"
    epoch = ledger.log(info.id).current_epoch()
    assert epoch is not None
    shown = {item.entry for item in epoch.head if item.form in (ItemForm.FULL, ItemForm.ELIDED)}
    shown |= set(range(epoch.base + 1, last + 1))
    covered = {n for drop in drops.values() if drop.entries for n in range(drop.entries[0], drop.entries[1] + 1)}
    silent = set(range(1, last + 1)) - shown - covered
    assert not silent, f"{silent} left out in silence"
    for item in epoch.head:
        if item.form is ItemForm.ELIDED:
            assert NAMED.search(json.dumps([item.message.content, [c.arguments for c in item.message.tool_calls]]))


def assert_results_in_order(entries: Sequence[Entry]) -> None:
    """Every call that was ever made has one result at most, and none is answered before it was asked."""
    asked: set[str] = set()
    answered: list[str] = []
    for entry in entries:
        asked.update(call.id for call in entry.message.tool_calls)
        if entry.message.role is Role.TOOL:
            assert entry.message.tool_call_id in asked
            answered.append(entry.message.tool_call_id or "")
    assert len(answered) == len(set(answered))


def assert_replays(ledger: Ledger, session: str) -> None:
    """Law 8."""
    answer = replayed(ledger, session)
    assert answer["ok"], answer["first_difference"]


def assert_laws(ledger: Ledger, session: str, received: Sequence[Received]) -> list[Sent]:
    """All of them at once, for a session that is closed."""
    main = ledger.session(session).main_lane
    sent = matched(ledger, session, received)
    assert_retries_repeat(sent)
    assert_prefix_law(sent, main)
    assert_pair_law(received)
    assert_request_law(ledger, main, sent)
    assert_nothing_lost(ledger, session, received)
    assert_results_in_order(on(ledger, main).read(1, on(ledger, main).last_id()))
    assert_replays(ledger, session)
    return sent
