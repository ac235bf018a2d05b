"""A stream that is cut is asked for once more: both requests are paid for and recorded, one answer is in the window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from session.played import MODEL, opened, say
from session.test_last_said import Steps, window

from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core import event as e
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger, RequestRow
from nexus_cli.reports.check_replay import check
from nexus_cli.reports.conversation import newest_turns
from nexus_cli.reports.transcript import session_transcript
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

LOST = ProviderError("network", "the connection was lost", started=True, cut=True)
HALF = (TextDelta("half"), LOST)
WHOLE = (TextDelta("the whole"), FinishDelta("stop"))
CALL = CallDelta(0, "call_1", "glob", '{"pattern": "*.noth')


class Again(Steps):
    """A provider that lets a cut answer be asked for again."""

    asks_again = True


def requests(session: Session) -> list[RequestRow]:
    with closing(Ledger.open(places().ledger)) as ledger:
        return ledger.log(session.id).requests()


def rows(session: Session) -> list[tuple[int, str | None]]:
    return [(row.manifest.step, row.finish) for row in requests(session)]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("cut", "finish"),
    [
        (HALF, "network"),
        ((TextDelta("half"),), "none"),
        ((TextDelta("half"), CALL), "none"),
        ((TextDelta("half"), CALL, LOST), "network"),
    ],
)
def test_a_cut_answer_is_asked_for_once_more(
    cut: tuple[Delta | ProviderError, ...], finish: str, tmp_path: Path
) -> None:
    session = opened(Again(cut, WHOLE), tmp_path)
    events, outcome = say(session, "hi")
    assert (outcome.ok, outcome.text, outcome.steps) == (True, "the whole", 1)
    assert window(session) == "the whole" and len(session.context.conversation.items) == 2, "half of it is no answer"
    assert rows(session) == [(1, finish), (2, "stop")]
    (retry,) = (one for one in events if isinstance(one, e.Retry))
    assert (retry.attempt, retry.cut) == (1, True)
    kinds = [one.kind for one in events if one.kind in ("text.delta", "retry")]
    assert kinds == ["text.delta", "retry", "text.delta"], "what came stays visible"
    assert outcome.usage.output > 0 and session.result(outcome)["usage"]["input"] == outcome.usage.input
    session = opened(Steps(), tmp_path, session.id)
    shown = next(iter(newest_turns(session)))
    assert [one.text for one in shown if isinstance(one, e.Text)] == ["half", "the whole"]
    text = find_form("transcript")(session_transcript(session), 80)
    assert text.index("half\n") < text.index("cut off: ") < text.index("retrying") < text.index("the whole")


@pytest.mark.matrix
def test_a_stream_that_ends_before_the_answer_is_asked_for_once_more(tmp_path: Path) -> None:
    session = opened(Again((), WHOLE), tmp_path)
    _, outcome = say(session, "hi")
    assert (outcome.ok, outcome.text, outcome.steps) == (True, "the whole", 1)
    assert window(session) == "the whole" and rows(session) == [(1, "none"), (2, "stop")]
    session = opened(Again((FinishDelta("stop"),), WHOLE), tmp_path)
    _, outcome = say(session, "hi")
    assert outcome.error is not None and "gave no answer" in outcome.error["message"], "it ended as it should"
    assert len(rows(session)) == 1


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ('{"name": "glob", "arguments": {"pattern": "*.py"}}', True),
        ('I look.\n<tool_call>\n{"name": "glob", "arguments": {"pattern": "{a}"}}\n</tool_call>\n', True),
        ('```json\n{"name": "glob", "parameters": {}}\n```', True),
        ("<tool_call>\n<function=glob>\n<parameter=pattern>\n*\n</parameter>\n</function>\n</tool_call>", True),
        ('{"name": "Ann", "arguments": {"pattern": "*.py"}}', False),
        ('The call was {"name": "glob", "arguments": {}}', False),
        ('```json\n{"name": "glob", "arguments": {}}\n``` is how a call looks.', False),
    ],
)
def test_a_call_that_is_written_as_text_is_no_success(text: str, fails: bool, tmp_path: Path) -> None:
    session = opened(Steps((TextDelta(text), FinishDelta("stop"))), tmp_path)
    _, outcome = say(session, "hi")
    assert outcome.text == text and window(session) == text
    assert (outcome.error is not None and "glob was not called" in outcome.error["message"]) is fails


def test_both_requests_have_the_same_lines_and_are_paid_for(tmp_path: Path) -> None:
    settings = Settings(models={MODEL: {"window": 16_000, "input_price": 2.0, "output_price": 8.0}})
    session = open_session(Options(tmp_path, MODEL), settings, approver=None, provider=Again(HALF, WHOLE))
    _, outcome = say(session, "hi")
    first, second = requests(session)
    assert first.manifest.sha256 == second.manifest.sha256 and first.usage and first.usage.cost_usd
    assert outcome.usage.input == first.usage.input + (second.usage.input if second.usage else 0)
    with closing(Ledger.open(places().ledger)) as ledger:
        assert ledger.usage(session.id).cost_usd == outcome.usage.cost_usd
        assert check(ledger, session.id)["ok"]


@pytest.mark.matrix
def test_a_cut_request_ends_its_step_with_the_usage_that_was_reported(tmp_path: Path) -> None:
    size = opened(Steps(WHOLE), tmp_path)
    say(size, "hi")
    (row,) = requests(size)
    assert row.usage
    reported = Usage(row.usage.input + 3, 7)
    session = opened(Again((TextDelta("half"), UsageDelta(reported)), WHOLE), tmp_path)
    events, outcome = say(session, "hi")
    first, second = (one for one in events if isinstance(one, e.StepEnd))
    assert (first.step, first.finish, second.step, second.finish) == (1, "cut", 2, "stop")
    assert (first.usage.input, first.usage.output) == (reported.input, 7)
    assert first.usage.input + second.usage.input == outcome.usage.input
    assert (requests(session)[0].usage or Usage()).output == 7


def test_a_second_cut_ends_the_turn_as_ever(tmp_path: Path) -> None:
    session = opened(Again(HALF, (TextDelta("other half"), LOST)), tmp_path)
    _, outcome = say(session, "hi")
    assert (outcome.finish, outcome.text) == ("network", "other half")
    assert window(session) == "other half\n\n[the reply broke off here]" and len(rows(session)) == 2


WRONG_KEY = ProviderError("auth", "wrong key")


@pytest.mark.matrix
@pytest.mark.parametrize("last", [FinishDelta("length"), FinishDelta("content_filter"), WRONG_KEY])
def test_what_another_request_would_not_mend_is_not_sent_again(last: Delta | ProviderError, tmp_path: Path) -> None:
    session = opened(Again((TextDelta("half"), last), WHOLE), tmp_path)
    assert not say(session, "hi")[1].ok and len(rows(session)) == 1


@pytest.mark.matrix
def test_a_limit_that_the_second_request_would_break_keeps_it_from_being_sent(tmp_path: Path) -> None:
    settings = Settings(models={MODEL: {"window": 16_000}})
    options = Options(tmp_path, MODEL, limits=Limits(max_total_tokens=9_000))
    long = TextDelta("word " * 30_000)
    session = open_session(options, settings, approver=None, provider=Again((long, LOST), WHOLE))
    events, outcome = say(session, "hi")
    assert outcome.finish == "limit" and len(rows(session)) == 1
    assert not [one for one in events if isinstance(one, e.Retry)]


def test_without_retries_a_cut_answer_ends_the_turn(tmp_path: Path) -> None:
    assert say(opened(Steps(HALF, WHOLE), tmp_path), "hi")[1].finish == "network"


@pytest.mark.matrix
@pytest.mark.parametrize("is_sent", [True, False])
async def test_stopping_the_second_request_keeps_what_the_first_brought(tmp_path: Path, is_sent: bool) -> None:
    class Hangs(Again):
        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            for delta in next(self.steps, ()):
                if isinstance(delta, ProviderError):
                    raise delta
                yield delta
            request.sending.is_sent = is_sent
            await asyncio.sleep(60)

    session = opened(Hangs(HALF), tmp_path)
    events = []
    async for one in session.run(Trigger("hi")):
        events.append(one)
        if isinstance(one, e.StepStart) and one.step == 2:
            session.cancel("person")
    end = events[-1]
    assert isinstance(end, e.TurnEnd) and end.outcome.finish == "aborted"
    assert rows(session) == [(1, "network"), (2, "interrupted")]
    stopped_request = requests(session)[1]
    assert stopped_request.counted.input == stopped_request.manifest.estimate * is_sent, "in every report"
    assert window(session) == "half\n\n[interrupted]" and end.outcome.text == "half"


@pytest.mark.parametrize("second", [(WRONG_KEY,), (), (FinishDelta("stop"),)])
def test_a_second_request_that_brings_no_text_keeps_what_the_first_brought(
    second: tuple[Delta | ProviderError, ...], tmp_path: Path
) -> None:
    session = opened(Again(HALF, second), tmp_path)
    _, outcome = say(session, "hi")
    assert not outcome.ok and outcome.text == "half"
    assert window(session) == "half\n\n[the reply broke off here]"
