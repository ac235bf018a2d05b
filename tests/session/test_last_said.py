"""What a turn gives out as its text: what the last step said itself, without the marks that the window keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from session.played import MODEL, Played, opened, say

from nexus_cli.config.settings import Settings
from nexus_cli.core import event as e
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta
from nexus_cli.core.usage import Usage
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

LOOK = (TextDelta("hm"), CallDelta(0, "call_1", "glob", '{"pattern": "*.nothing"}'), FinishDelta("tool_calls"))
LOST = ProviderError("network", "the connection was lost", started=True)
WRONG_KEY = ProviderError("auth", "the key is wrong")


class Steps(Played):
    """A model whose steps are deltas; an error among them is raised there."""

    def __init__(self, *steps: tuple[Delta | ProviderError, ...]) -> None:
        super().__init__(lambda asked: "")
        self.steps = iter(steps)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """The next step."""
        for delta in next(self.steps):
            if isinstance(delta, ProviderError):
                raise delta
            yield delta


def window(session: Session) -> str:
    return session.context.conversation.items[-1].message.content


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("end", "kind", "mark"),
    [
        (FinishDelta("length"), "length", "[cut off: the output limit was reached]"),
        (FinishDelta("content_filter"), "refused", "[the reply broke off here]"),
        (LOST, "network", "[the reply broke off here]"),
    ],
)
def test_the_mark_of_an_unfinished_answer_is_in_the_window_and_not_in_the_outcome(
    end: Delta | ProviderError, kind: str, mark: str, tmp_path: Path
) -> None:
    session = opened(Steps((TextDelta("abc"), end)), tmp_path)
    _, outcome = say(session, "hi")
    assert (outcome.finish, outcome.text) == (kind, "abc")
    assert window(session) == f"abc\n\n{mark}"
    assert session.result(outcome)["text"] == "abc"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ((FinishDelta("stop"),), "provider"),
        ((WRONG_KEY,), "auth"),
        ((FinishDelta("length"),), "length"),
    ],
)
def test_a_last_step_that_said_nothing_does_not_get_the_words_of_the_one_before(
    last: tuple[Delta | ProviderError, ...], kind: str, tmp_path: Path
) -> None:
    _, outcome = say(opened(Steps(LOOK, last), tmp_path), "hi")
    assert (outcome.finish, outcome.text, outcome.steps) == (kind, "", 2)


@pytest.mark.matrix
@pytest.mark.parametrize("end", [LOST, WRONG_KEY])
def test_a_step_that_failed_has_an_end_with_its_usage(end: ProviderError, tmp_path: Path) -> None:
    events, outcome = say(opened(Steps(LOOK, (TextDelta("abc"), end)), tmp_path), "hi")
    starts = [one.step for one in events if isinstance(one, e.StepStart)]
    ends = [one for one in events if isinstance(one, e.StepEnd)]
    assert [(one.step, one.finish) for one in ends] == [(1, "tool_calls"), (2, end.kind)] and starts == [1, 2]
    assert sum((one.usage for one in ends), Usage()) == outcome.usage


@pytest.mark.matrix
def test_a_turn_that_sent_nothing_says_nothing_of_the_turn_before(tmp_path: Path) -> None:
    asked = Options(tmp_path, MODEL, limits=Limits(max_total_tokens=10))
    settings = Settings(models={MODEL: {"window": 16_000}})
    provider = Steps((TextDelta("abc"), FinishDelta("stop")))
    session = opened(provider, tmp_path)
    assert say(session, "hi")[1].text == "abc"
    tight = open_session(asked, settings, approver=None, provider=provider)
    assert say(tight, "hi")[1].text == ""


@pytest.mark.matrix
@pytest.mark.parametrize(("prices", "cost"), [({}, None), ({"input_price": 2.0, "output_price": 8.0}, 0.0)])
def test_a_failed_request_costs_nothing_at_a_known_price_and_an_unknown_amount_at_an_unknown_one(
    prices: dict[str, float], cost: float | None, tmp_path: Path
) -> None:
    settings = Settings(models={MODEL: {"window": 16_000, **prices}})
    session = open_session(Options(tmp_path, MODEL), settings, approver=None, provider=Steps((WRONG_KEY,)))
    _, outcome = say(session, "hi")
    assert outcome.finish == "auth" and session.result(outcome)["usage"]["cost_usd"] == cost
