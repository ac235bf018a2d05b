"""How many tokens the next request takes: every place that says so says the same, whatever was done before."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session import summed
from session.played import MODEL, Answer, Played, the_ledger
from session.summed import asks_for_summary, done, turn

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.event import (
    ContextPlan,
    Event,
    Outcome,
    ToolResultEvent,
    TurnEnd,
)
from nexus_cli.core.event_json import ContextFigures
from nexus_cli.core.request import Delta, FinishDelta, Request, UsageDelta
from nexus_cli.core.services import Assembly
from nexus_cli.core.usage import Usage
from nexus_cli.reports.context import context_report, live_report
from nexus_cli.session.acts.compaction import preview, uncompaction
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

OTHER = "openai/another"
SETTINGS = Settings(models={MODEL: {"window": 60_000}, OTHER: {"window": 40_000}})
SUMMARY = "## Goal\nlists of numbers\n## Next\n" + "a list was made, then another\n" * 20


@dataclass
class Provider(Played):
    """Counts otherwise than we do: tool results much more than words. `says` makes something else of its count."""

    says: Any = field(default=lambda tokens: tokens)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        fixed = len(json.dumps(list(request.tools))) // 6
        sizes = {"tool": 2, "user": 5, "assistant": 4, "system": 4}
        tokens = fixed + sum(len(json.dumps(one)) // sizes[str(one["role"])] for one in request.messages)
        async for delta in super().stream(request):
            if isinstance(delta, UsageDelta):
                break
            yield delta
        if (said := self.says(tokens)) is not None:
            yield UsageDelta(Usage(said, 20))
        yield FinishDelta("tool_calls" if isinstance(delta, UsageDelta) and self._called(request) else "stop")

    def _called(self, request: Request) -> bool:
        return not isinstance(self.script(request), str)


def script(request: Request) -> Answer:
    """Numbers for words, words for numbers."""
    if asks_for_summary(request):
        return SUMMARY
    last = request.messages[-1]
    if last["role"] == "user" and "list" in str(last["content"]):
        return [("bash", {"command": "seq 1000 1900"})]
    if last["role"] == "user" and "look" in str(last["content"]):
        return [("context", {})]
    return "these are the numbers that were asked for, " * 60


def living(
    provider: Provider, folder: Path, again: str = "", model: str = MODEL
) -> AbstractAsyncContextManager[Session]:
    """A session of this provider."""
    models: dict[str, dict[str, float | int | bool]] = {OTHER: {"window": 40_000}}
    return summed.living(
        folder, script, window=60_000, models=models, provider=provider, again=again, model=model, steps=9
    )


def on_record(session: Session, folder: Path, model: str) -> int:
    """What another process says of it."""
    return int(context_report(Options(folder, model, allow="all"), SETTINGS, session.id)["budget"]["used"]["total"])


async def agrees(session: Session, *, other: bool = True) -> int:
    """The figure that every place says; with `other` also a process that has only the record."""
    value, found = live_report(session), list[Mapping[str, Any]]()
    status = session.status()
    ended = Outcome(True, 0, "", "stop", None, 1, Usage(), 0.0)
    await done(session, preview("", found.append))
    figures = {
        "status line": status.used,
        "/context": value["budget"]["used"]["total"],
        "sent anew": session.prepare_next_request().tokens,
        "the tool": session.dispatcher.services[Assembly].contents()["budget"]["used"]["total"],
        "preview": found[0]["before"],
        "result": figures_of(session, ended)["used"],
        "status line again": session.status().used,
    }
    if other:
        figures["nexus context"] = on_record(session, session.dispatcher.cwd, session.model)
    assert len(set(figures.values())) == 1, figures
    assert value["basis"] == status.basis == figures_of(session, ended)["basis"]
    return status.used


def figures_of(session: Session, outcome: Outcome) -> ContextFigures:
    found = session.result(outcome)["context"]
    assert found is not None
    return found


def planned(session: Session, events: list[Event]) -> None:
    """Each plan says what was then estimated for the request that it is of."""
    plans = [event.plan["budget"]["used"]["total"] for event in events if isinstance(event, ContextPlan)]
    with the_ledger() as ledger:
        sent = [row.manifest.estimate for row in ledger.log(session.id).requests()]
    assert plans == sent[-len(plans) :]


async def test_after_messages_results_and_reports_every_place_says_the_same(tmp_path: Path) -> None:
    async with living(Provider(script), tmp_path) as session:
        for words in ("hello " * 300, "list", "go on", "list again"):
            events = await turn(session, words)
            used = await agrees(session)
            end = next(event for event in events if isinstance(event, TurnEnd))
            assert figures_of(session, end.outcome)["used"] == used
        planned(session, await turn(session, "look"))


@pytest.mark.matrix
async def test_what_the_model_is_told_of_its_context_is_what_the_status_line_shows_then(tmp_path: Path) -> None:
    async with living(Provider(script), tmp_path) as session:
        await turn(session, "list")
        told, shown = list[str](), list[str]()
        own: Any = session.dispatcher.services[Assembly]
        contents: Callable[[], Mapping[str, Any]] = own.contents

        def looked() -> Mapping[str, Any]:
            shown.append(f"{session.status().used:,}")
            return contents()

        own.contents = looked
        for event in await turn(session, "look"):
            if isinstance(event, ToolResultEvent):
                told += re.findall(r"budget: ([\d,]+) of", event.result.text)
        assert told == shown != []


@pytest.mark.matrix
async def test_a_request_says_later_what_it_said_when_it_was_made(tmp_path: Path) -> None:
    """What it says first, once the session has gone on in a new epoch, is what an equal one said at once."""

    def said(request: RequestPlan) -> tuple[object, ...]:
        ahead = request.outlook
        cached = request.cached, request.uncached_tokens, request.repeated, ahead.tokens, ahead.shared, ahead.messages
        return request.tokens, request.upper_bound, request.fits, request.sections, cached

    async with living(Provider(script), tmp_path) as session:
        engine = session.engine
        await turn(session, "list")
        session.reload()
        session.prepare_next_request()
        at_once, later = engine.next_request(), engine.next_request()
        before = said(at_once)
        await turn(session, "go on")
        assert engine.conversation.epoch.id != at_once.epoch.parent
        assert said(later) == before and said(engine.next_request()) != before


@pytest.mark.matrix
async def test_a_reload_a_fork_and_another_model_are_counted_as_they_will_be_sent(tmp_path: Path) -> None:
    provider = Provider(script)
    async with living(provider, tmp_path) as session:
        await turn(session, "list")
        (tmp_path / "NEXUS.md").write_text("Be exact and brief. " * 200)
        session.reload()
        assert not session.status().settled, "nobody has looked yet"
        old, new = session.status().used, session.prepare_next_request().tokens
        assert new > old + 500 and session.status().settled and await agrees(session, other=False) == new
        await turn(session, "go on")
        used, name = await agrees(session), session.id
    with the_ledger() as ledger:
        fork = ledger.fork_session(name, at=format_utc(local_now())).id
    async with living(provider, tmp_path, fork) as session:
        assert abs(await agrees(session) - used) <= used // 50
        await turn(session, "go on")
        await agrees(session)
    (tmp_path / "NEXUS.md").unlink()
    async with living(provider, tmp_path, name, OTHER) as session:
        assert not session.status().settled
        assert session.prepare_next_request().tokens < used and await agrees(session)
        await turn(session, "go on")
        await agrees(session)


@pytest.mark.matrix
async def test_what_waits_for_the_next_message_is_part_of_it(tmp_path: Path) -> None:
    waiting: list[str] = []
    provider = Provider(script)
    async with living(provider, tmp_path) as session:
        session.engine.control.waiting_texts = lambda: waiting
        empty = live_report(session)["budget"]["used"]["total"]
        waiting.append("<shell command='seq'>\n" + "the output of a command\n" * 400 + "</shell>")
        assert live_report(session)["budget"]["used"]["total"] > empty + 1000 and not session.status().settled
        waiting.clear()
        await turn(session, "list")
        before = await agrees(session)
        waiting.append("<shell command='seq'>\n" + "the output of a command\n" * 400 + "</shell>")
        with_it = await agrees(session, other=False)
        value = live_report(session)
        assert with_it > before + 1000 and value["waiting"]["texts"] == 1
        assert abs(value["waiting"]["tokens"] - (with_it - before)) < with_it // 100
        assert any(one["what"].startswith("message: <shell") for one in value["largest"])
        assert value["budget"]["used"]["history"] == sum(value["history"]["by_kind"].values())
        await turn(session, "go on\n\n" + waiting.pop())
        await agrees(session)


def broken(tokens: int) -> int:
    """No figures come, and no end."""
    raise ProviderError("network", "the line is dead")


@dataclass
class Person:
    """Does one thing after another to a session, which is opened anew for some of them."""

    folder: Path
    provider: Provider = field(default_factory=lambda: Provider(script))
    session: str = ""
    model: str = MODEL

    async def does(self, action: str) -> None:
        """One of `ACTIONS`, with every figure compared before and after."""
        async with living(self.provider, self.folder, self.session, self.model) as session:
            self.session = session.id
            if session.status().settled:
                await agrees(session)
            events = list[Event]()
            match action:
                case "words" | "list" | "look":
                    events = await turn(session, {"words": "hello " * 300}.get(action, action))
                case "silent" | "odd":
                    self.provider.says = lambda tokens: None if action == "silent" else tokens * 9
                    events = await turn(session, "list")
                    self.provider.says = lambda tokens: tokens
                case "broken":
                    self.provider.says = broken
                    await turn(session, "list")
                    self.provider.says = lambda tokens: tokens
                case "compact":
                    await session.compact()
                case "undo":
                    with suppress(NexusError):  # nothing to undo
                        await done(session, uncompaction())
                case "reload":
                    (self.folder / "NEXUS.md").write_text("Be exact and brief. " * len(self.provider.seen))
                    session.reload()
                    if not session.status().used:
                        return
                    await agrees(session, other=False)
                    events = await turn(session, "go on")
                case "switch":
                    self.model = OTHER if self.model == MODEL else MODEL
                case "fork":
                    with the_ledger() as ledger:
                        self.session = ledger.fork_session(self.session, at=format_utc(local_now())).id
                    return
            if events:
                planned(session, events)
            if session.status().used:
                await agrees(session)


ACTIONS = ("words", "list", "look", "silent", "odd", "broken", "compact", "undo", "reload", "switch", "fork")


@pytest.mark.matrix
@settings(max_examples=settings().max_examples // 6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(ACTIONS), min_size=4, max_size=9))
def test_whatever_is_done_every_place_says_the_same(tmp_path: Path, actions: list[str]) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    person = Person(folder)

    async def live() -> None:
        for action in ("list", *actions):
            await person.does(action)

    asyncio.run(live())
