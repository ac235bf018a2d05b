"""The window of a session is its `ContextManager`: what that shows is what was sent, and what the ledger replays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from epochs import prefix_sha256
from laws.check import assert_laws, wire_sha256
from laws.model import FORK, TRANSCRIPT
from laws.world import World, outcome, say, the_ledger, world
from server.blocks import content

from nexus_cli.config.settings import TruncationSettings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.compactor import Compactor
from nexus_cli.conversation.compaction.work_log import WorkLog
from nexus_cli.conversation.groups import flatten
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.entry import ItemForm, Manifest, WindowItem
from nexus_cli.core.event import CompactionDone
from nexus_cli.core.message import Message
from nexus_cli.ledger import LaneLog
from nexus_cli.session.acts.compaction import uncompaction
from nexus_cli.session.session import Session

SUMMARY = "Goal: as said. Next: go on. SUMMARY: the person wants lists. " + "what was done. " * 20
CHAT: dict[str, Any] = {"front": "chat", "interactive": True}
"""How the REPL opens a session."""


def shown_form(message: Message) -> dict[str, Any]:
    """Return a message of the context as role, text, id and calls."""
    value: dict[str, Any] = {"role": str(message.role), "content": message.content or None}
    if message.tool_call_id is not None:
        value["tool_call_id"] = message.tool_call_id
    if calls := [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]:
        value["tool_calls"] = calls
    return value


def sent_form(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of a captured body in the same form."""
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls") or ()
    ]
    return {"content": None, **message, **({"tool_calls": calls} if calls else {})}


@dataclass
class Comparing:
    """A model that makes one list in each turn, and compares each request with the session's context while the session
    waits for the reply."""

    sums_up: bool = False
    session: Session = field(init=False)
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    """The tokens of the context when a request was sent, by the hash of the request."""

    def __call__(self, body: Any) -> dict[str, Any]:
        last = content(body, "chat")[-1]
        if FORK in last.text or TRANSCRIPT in last.text:
            return {"text": SUMMARY if self.sums_up else ""}
        self.compared += 1
        self.differences += [f"request {self.compared}: {what}" for what in self.compare(body)]
        if last.role == "tool":
            return {"text": "listed"}
        return {"calls": [{"name": "bash", "arguments": {"command": f"seq {self.compared} {self.compared + 399}"}}]}

    def compare(self, body: Mapping[str, Any]) -> list[str]:
        """Return what of the context is another than what the server received."""
        context, sha256 = self.session.context, wire_sha256(body)
        sent = [sent_form(message) for message in body["messages"]]
        epoch, shown = context.conversation.epoch.id, [shown_form(message) for message in context.messages]
        self.tokens[sha256] = context.get_token_usage()["total"]
        equal = {
            "the messages": len(shown) == len(sent) - 1
            and all(
                {**one, "content": ""} == {**other, "content": ""}
                and (one["content"] or "") in (other["content"] or "")
                for one, other in zip(shown, sent[1:], strict=True)
            ),
            "the built list": [shown_form(message) for message in context.build_messages()] == sent,
            "the system prompt": context.system_prompt == body["messages"][0]["content"],
            "the tools": context.get_tool_definitions() == body["tools"],
            "the bytes": prefix_sha256(context.conversation.epoch, flatten(context.conversation.groups())) == sha256,
            "the epoch, by building": context.conversation.epoch.id == epoch,
        }
        return [name for name, is_equal in equal.items() if not is_equal]


def replayed_tokens(log: LaneLog, manifest: Manifest) -> int:
    """Return the tokens of the window of a request, from the ledger alone."""
    epoch = log.epoch(manifest.epoch)
    items = [*epoch.head, *map(WindowItem.of, log.read(epoch.base + 1, manifest.last))]
    return epoch.system_tokens + epoch.tools_tokens + sum(item.tokens for item in items)


async def take_turns(around: World, model: Comparing, numbers: range) -> None:
    """Take turns in which the model runs one command each."""
    for number in numbers:
        assert outcome(await say(model.session, f"TURN{number} make a list")).ok


@pytest.mark.parametrize(("strategy", "keeps_first"), [("oldest_first", False), ("middle_out", True)])
def test_the_context_of_a_session_is_what_it_sends_through_truncation_compaction_and_resuming(
    strategy: str, keeps_first: bool, tmp_path: Path
) -> None:
    """A session of the REPL: the summary is empty first, so that the window is truncated, then it is accepted."""
    model = Comparing()

    async def live(around: World) -> str:
        session = model.session = around.open(**CHAT)
        await take_turns(around, model, range(9))
        whole = [item.entry for item in session.context.conversation.items if item.form is ItemForm.FULL]
        assert session.context.conversation.epoch.cause == "truncation"
        assert (whole[0] == 1) == keeps_first, "the setting decides what the context drops"
        assert (session.context.messages[0].content == "TURN0 make a list") == keeps_first
        model.sums_up = True
        assert any(isinstance(event, CompactionDone) and event.ok for event in await session.compact())
        assert (
            session.context.conversation.epoch.cause == "compaction"
            and SUMMARY.strip() in session.context.messages[0].content
        )
        await take_turns(around, model, range(9, 11))
        left = session.context.messages
        await session.aclose()
        model.session = around.open(session.id, **CHAT)
        assert model.session.context.messages == left, "a resumed session shows its window before the first request"
        await take_turns(around, model, range(11, 12))
        await model.session.aclose()
        return session.id

    with world(tmp_path, model, window=12_000, factor=1.6, truncation=TruncationSettings(strategy)) as around:
        session = asyncio.run(live(around))
        assert not model.differences, "\n".join(model.differences)
        with the_ledger() as ledger:
            assert_laws(ledger, session, around.server.requests)
            log = ledger.log(session)
            replayed = {row.manifest.sha256: replayed_tokens(log, row.manifest) for row in log.requests()}
    assert model.tokens == replayed and model.compared == len(replayed) == 24


def test_truncation_compaction_and_undo_of_a_session_are_run_by_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of the REPL. Each epoch after the first one is begun by the context that the session holds."""
    model, real = Comparing(), ContextManager.begin_epoch
    begun: list[tuple[ContextManager, int, str]] = []
    drafted: list[ContextManager] = []

    def begin_epoch(self: ContextManager, rewrite: Rewrite) -> None:
        real(self, rewrite)
        begun.append((self, rewrite.epoch.id, rewrite.epoch.cause))

    def make(self: ContextManager, work: WorkLog, *, recalls: bool, real: Any = ContextManager.compactor) -> Compactor:
        drafted.append(self)
        compactor: Compactor = real(self, work, recalls=recalls)
        return compactor

    async def live(around: World) -> None:
        session = model.session = around.open(**CHAT)
        await take_turns(around, model, range(9))
        assert drafted and {*map(id, drafted)} == {id(session.context)}
        model.sums_up = True
        drafted.clear()
        await session.compact()
        assert drafted
        [event async for event in session.act(uncompaction())]
        conversation, made = session.context.conversation, list[tuple[int, str]]()
        epoch = conversation.epoch
        while epoch.parent is not None:
            made.append((epoch.id, epoch.cause))
            epoch = conversation.log.epoch(epoch.parent)
        assert [(number, cause) for context, number, cause in begun if context is session.context] == made[::-1]
        assert {cause for _, cause in made} == {"truncation", "compaction", "undo"}
        await session.aclose()

    monkeypatch.setattr(ContextManager, "begin_epoch", begin_epoch)
    monkeypatch.setattr(ContextManager, "compactor", make)
    with world(tmp_path, model, window=12_000, factor=1.6) as around:
        asyncio.run(live(around))
    assert not model.differences, "\n".join(model.differences)


def test_the_room_of_the_context_is_that_of_the_session_after_a_refusal_too(tmp_path: Path) -> None:
    model = Comparing(sums_up=True)

    async def live(around: World) -> None:
        session = model.session = around.open(**CHAT)
        assert session.context.get_token_usage()["budget"] == 16_000
        await take_turns(around, model, range(12))
        assert session.context.get_token_usage()["budget"] == session.engine.model.info.window == 8000
        assert session.context.available == session.engine.context.budget.available == 5000
        await session.aclose()

    with world(tmp_path, model, window=16_000, refuse_above=8000, factor=1.4) as around:
        asyncio.run(live(around))
    assert not model.differences, "\n".join(model.differences)
