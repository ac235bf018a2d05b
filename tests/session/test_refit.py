"""A window that became smaller: the sections are planned anew, and the session goes on."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, the_ledger

from nexus_cli.core import event
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.settings import Settings
from nexus_cli.session.logger import SessionLogger
from nexus_cli.session.options import Options
from nexus_cli.session.replay import check
from nexus_cli.session.reports import models
from nexus_cli.session.reports.context import report
from nexus_cli.session.wiring import open_session
from nexus_cli.ui.reports import model_text

RULES = "\n".join(f"# Part {number}\n{'Do this before that. ' * 60}" for number in range(36)).strip()
"""Instructions of about 11,000 tokens."""
OTHER = "openai/other"
WORDS = "Please look at this. " * 60


class Narrow(Played):
    """A provider whose window is `window` tokens, by its own count of characters, and that names it."""

    window = 10**9

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, or the refusal."""
        tokens = len(json.dumps([list(request.messages), list(request.tools)])) // 5
        if tokens > self.window:
            self.seen.append([])
            raise ProviderError("overflow", f"the window is {self.window}", limit=self.window)
        async for delta in super().stream(request):
            yield delta


def lived(
    provider: Played, folder: Path, window: int, *said: str, again: str = "", model: str = MODEL
) -> tuple[str, list[Event], list[Outcome]]:
    """A session of these turns, of a model whose window the settings name unless that is 0: its id, its events, how
    they ended."""
    settings = Settings(models={model: {"window": window}} if window else {})
    asked = Options(folder, model, resume=again, allow="all")
    session = open_session(asked, settings, approver=None, provider=provider)

    async def live() -> list[Event]:
        try:
            return [one for words in said async for one in session.run(words)]
        finally:
            await session.aclose()

    events = asyncio.run(live())
    return session.id, events, [one.outcome for one in events if isinstance(one, TurnEnd)]


def epochs(session: str) -> list[str]:
    """What began each epoch of the session's main lane; what was sent replays."""
    with the_ledger() as ledger:
        log = SessionLogger(ledger=ledger, session=session)
        newest = log.current_epoch()
        assert newest is not None and check(ledger, session)["ok"]
        return [log.epoch(number).cause for number in range(newest.id + 1)]


def system(provider: Played) -> str:
    """The system text of the newest request."""
    return str(provider.seen[-1][0]["content"])


def test_a_session_that_is_resumed_in_a_smaller_window_plans_its_sections_anew(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Played(lambda request: "done")
    session, _, ends = lived(provider, tmp_path, 64_000, "one")
    assert ends[0].ok and RULES in system(provider)
    _, events, ends = lived(provider, tmp_path, 8_000, WORDS, "three", again=session)
    assert [end.ok for end in ends] == [True, True]
    assert 'recall("d1"' in system(provider) and RULES not in system(provider)
    assert WORDS.strip() in str(provider.seen[-2][-1]["content"]), "what the person said has the room that there is now"
    assert len([one for one in events if isinstance(one, event.Notice) and "planned anew" in one.text]) == 1
    assert epochs(session) == ["start", "window"]
    _, _, ends = lived(provider, tmp_path, 8_000, "four", again=session)
    assert ends[0].ok and epochs(session) == ["start", "window"], "what fits is left alone"


def test_a_switch_to_a_model_with_a_smaller_window_keeps_the_persons_words(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Played(lambda request: "done")
    session, _, _ = lived(provider, tmp_path, 64_000, "one")
    _, _, ends = lived(provider, tmp_path, 8_000, WORDS, again=session, model=OTHER)
    assert ends[0].ok and WORDS.strip() in str(provider.seen[-1][-1]["content"])
    assert epochs(session) == ["start", "model"]


def test_a_provider_that_names_a_smaller_window_does_not_end_the_session(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Narrow(lambda request: "done")
    session, _, ends = lived(provider, tmp_path, 64_000, "one")
    assert ends[0].ok
    provider.window = 8_192
    _, _, ends = lived(provider, tmp_path, 64_000, "two", "three", again=session)
    assert [end.ok for end in ends] == [True, True]
    assert provider.seen.count([]) == 1 and RULES not in system(provider)
    assert "window" in epochs(session)
    asked, settings = Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 128_000}})
    windows = [report(asked, settings, session, step)["budget"]["window"] for step in (1, 2, 3, 4)]
    assert windows == [64_000, 64_000, 8_192, 8_192], "each in the window that it was sent into"


def test_a_new_session_whose_window_was_set_too_large_goes_on(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Narrow(lambda request: "done")
    provider.window = 8_192
    session, _, ends = lived(provider, tmp_path, 64_000, "one", "two")
    assert [end.ok for end in ends] == [True, True] and provider.seen.count([]) == 1
    assert epochs(session)[:2] == ["start", "window"]


def test_where_nothing_gets_smaller_no_epoch_begins_and_shorter_instructions_are_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("\n".join(f"# {number} {'heading ' * 9}" for number in range(90)))
    provider = Played(lambda request: "done")
    session, _, _ = lived(provider, tmp_path, 12_000, "one")
    _, _, ends = lived(provider, tmp_path, 2_000, "two", "three", again=session)
    assert [end.exit for end in ends] == [3, 3] and len(provider.seen) == 1
    seen: list[Any] = epochs(session)
    assert len(seen) <= 2, "it is planned anew at most once"


def test_a_window_that_a_refusal_named_is_that_of_the_place_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = Settings()
    monkeypatch.setenv("OPENAI_API_BASE", "http://me:secret@127.0.0.1:8000/v1")
    provider = Narrow(lambda request: "done")
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider.window = 8_192
    _, events, ends = lived(provider, tmp_path, 0, "one")
    assert ends[0].ok
    (told,) = [one.text for one in events if isinstance(one, event.Notice) and "kept to from now on" in one.text]
    assert f"{MODEL} at 127.0.0.1:8000" in told and "secret" not in told
    there = models.shown(MODEL, wide, os.environ)
    assert (there["window"], there["window_told"]) == (8_192, True)
    assert "as a refusal said" in model_text(there, 120) and "8,192?" not in model_text(there, 120)
    assert models.shown(MODEL, Settings(models={MODEL: {"window": 50_000}}), os.environ)["window"] == 50_000
    for elsewhere in ("http://127.0.0.1:8001/v1", ""):
        monkeypatch.setenv("OPENAI_API_BASE", elsewhere)
        other = models.shown(MODEL, wide, os.environ)
        assert (other["window"], other["window_told"]) == (128_000, False)
        assert lived(Played(lambda request: "done"), tmp_path, 0, WORDS)[2][0].ok


def test_sections_that_a_window_named_by_a_refusal_cannot_hold_say_how_to_name_another(tmp_path: Path) -> None:
    provider = Narrow(lambda request: "done")
    provider.window = 900
    _, _, ends = lived(provider, tmp_path, 0, "one")
    _, _, again = lived(provider, tmp_path, 0, "one")
    for end in (*ends, *again):
        assert end.error is not None and end.error["kind"] == "overflow"
        assert f'[models."{MODEL}"] window in config.toml' in str(end.error)
