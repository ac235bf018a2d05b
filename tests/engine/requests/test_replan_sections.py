"""A window that became smaller: the sections are planned anew, and the session goes on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, context_report, opened, run_turns, the_ledger

from nexus_cli.commands.model import model_report
from nexus_cli.config.settings import Settings
from nexus_cli.core import event
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.event import Event, Outcome, TurnEnd
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Delta, Request
from nexus_cli.core.usage import Usage
from nexus_cli.engine.compaction.context_fit import _refuse_if_too_large
from nexus_cli.reports.check_replay import check
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

RULES = "\n".join(f"# Part {number}\n{'Do this before that. ' * 60}" for number in range(36)).strip()
"""Instructions of about 11,000 tokens."""
OTHER = "openai/other"
WORDS = "Please look at this. " * 60


class Narrow(Played):
    """A provider whose window is `window` tokens, by its own count of characters, and that names it."""

    window = 10**9
    names = True

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply, or the refusal."""
        tokens = len(json.dumps([list(request.messages), list(request.tools)])) // 5
        if tokens > self.window:
            self.seen.append([])
            limit = self.window if self.names else None
            raise ProviderError("overflow", "the request is too long", limit=limit)
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

    events = run_turns(session, *said)
    return session.id, events, [one.outcome for one in events if isinstance(one, TurnEnd)]


def epochs(session: str) -> list[str]:
    """What began each epoch of the session's main lane; what was sent replays."""
    with the_ledger() as ledger:
        log = ledger.log(session)
        newest = log.current_epoch()
        assert newest is not None and check(ledger, session)["ok"]
        return [log.epoch(number).cause for number in range(newest.id + 1)]


def system(provider: Played) -> str:
    """The system text of the newest request."""
    return str(provider.seen[-1][0]["content"])


@pytest.mark.matrix
def test_a_session_that_is_resumed_in_a_smaller_window_plans_its_sections_anew(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Played(lambda request: "done")
    session, _, ends = lived(provider, tmp_path, 64_000, "one")
    assert ends[0].ok and RULES in system(provider)
    _, events, ends = lived(provider, tmp_path, 8_000, WORDS, "three", again=session)
    assert [end.ok for end in ends] == [True, True]
    assert 'recall("d1"' in system(provider) and RULES not in system(provider)
    assert WORDS.strip() in str(provider.seen[-2][-1]["content"]), "what the person said has the room that there is now"
    told = [one.text for one in events if isinstance(one, event.Notice)]
    assert not [text for text in told if "sections" in text], "how they are planned is no news for a person"
    assert epochs(session) == ["start", "window"]
    _, _, ends = lived(provider, tmp_path, 8_000, "four", again=session)
    assert ends[0].ok and epochs(session) == ["start", "window"], "what fits is left alone"


@pytest.mark.matrix
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
    windows = [context_report(asked, settings, session, step)["budget"]["window"] for step in (1, 2, 3, 4)]
    assert windows == [64_000, 64_000, 8_192, 8_192], "each in the window that it was sent into"


@pytest.mark.matrix
def test_where_nothing_gets_smaller_no_epoch_begins_and_shorter_instructions_are_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("\n".join(f"# {number} {'heading ' * 9}" for number in range(90)))
    provider = Played(lambda request: "done")
    session, _, _ = lived(provider, tmp_path, 12_000, "one")
    _, _, ends = lived(provider, tmp_path, 2_000, "two", "three", again=session)
    assert [end.exit for end in ends] == [3, 3] and len(provider.seen) == 1
    seen: list[Any] = epochs(session)
    assert len(seen) <= 2, "it is planned anew at most once"


@pytest.mark.matrix
def test_the_notice_of_a_window_that_a_refusal_named_has_the_place_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://me:secret@127.0.0.1:8000/v1")
    provider = Narrow(lambda request: "done")
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider.window = 8_192
    _, events, ends = lived(provider, tmp_path, 0, "one")
    assert ends[0].ok
    (told,) = [one.text for one in events if isinstance(one, event.Notice) and "for this session only" in one.text]
    assert f"{MODEL} at 127.0.0.1:8000" in told and "secret" not in told
    assert model_report(MODEL, Settings())["window"] == 128_000


def notices(events: list[Event], words: str) -> list[str]:
    return [one.text for one in events if isinstance(one, event.Notice) and words in one.text]


@pytest.mark.matrix
def test_a_window_without_room_that_a_refusal_named_ends_one_session_and_no_later_one(tmp_path: Path) -> None:
    provider = Narrow(lambda request: "done")
    provider.window = 900
    for _ in range(2):
        provider.seen.clear()
        _, events, ends = lived(provider, tmp_path, 0, "one", "two", "three")
        for end in ends:
            assert end.error is not None and end.error["kind"] == "overflow"
            assert f"nexus config set 'models.\"{MODEL}\".window' 128000" in end.error["hint"]
        assert provider.seen == [[]], "refused, and then no more in this session"
        assert len(notices(events, "for this session only")) == 1
    provider.window = 10**9
    provider.usage = Usage(2500, 10)
    _, _, ends = lived(provider, tmp_path, 0, "one", "two")
    assert [end.ok for end in ends] == [True, True], "one wrong word of a provider does not end later sessions"


@pytest.mark.matrix
def test_a_window_that_was_set_too_large_says_once_which_setting_to_correct(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text(RULES)
    provider = Narrow(lambda request: "done")
    provider.window = 8_192
    for _ in range(2):
        provider.seen.clear()
        _, events, ends = lived(provider, tmp_path, 64_000, "one", "two", "three")
        assert all(end.ok for end in ends) and provider.seen.count([]) == 1
        (told,) = notices(events, "reports a context window of 8,192 tokens")
        assert f"nexus config set 'models.\"{MODEL}\".window' 8192" in told and "64,000" in told
        assert "from now on" not in told


def assert_adds_up(message: str) -> None:
    """What a refused request needs, the margin and the room stand in the message, and are more than the room."""
    text = message.replace(",", "")
    assert "margin (10% for errors of the token estimate until 5 replies have reported their usage)" in text
    found = re.search(r": ([^=:]*) = (\d+) tokens; the (?:window|budget) is (\d+)", text)
    assert found is not None
    terms, total, room = found.groups()
    assert sum(int(one) for one in re.findall(r"(?:^|\+ )(\d+)", terms)) == int(total) > int(room)


@pytest.mark.matrix
@pytest.mark.parametrize("window", [900, 1_400, 2_000])
def test_a_window_just_too_small_is_refused_with_numbers_that_add_up(window: int, tmp_path: Path) -> None:
    provider = Played(lambda request: "done")
    _, _, ends = lived(provider, tmp_path, window, "word " * 3000)
    assert ends[0].error is not None and ends[0].finish == "overflow" and not provider.seen
    assert_adds_up(str(ends[0].error["message"]))


def test_a_request_that_leaves_no_room_for_its_answer_is_refused_with_numbers_that_add_up(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "done"), tmp_path)
    engine = session.engine
    engine.conversation.append(Kind.USER, Message(Role.USER, "word " * 14_000), "person")
    with pytest.raises(NexusError, match="the request does not fit the window") as refused:
        _refuse_if_too_large(engine.context, engine.window_request())
    asyncio.run(session.aclose())
    assert_adds_up(refused.value.message)
