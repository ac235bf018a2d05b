"""Whether a reply is unfinished is how its request ended, never what its text says."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from search import sample
from session.played import opened, say
from session.test_last_said import Steps

from nexus_cli.config.paths import places
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import FinishDelta, TextDelta
from nexus_cli.engine.requests.model_call import BROKEN_OFF, CUT_OFF, INTERRUPTED
from nexus_cli.ledger import Ledger
from nexus_cli.reports.last_exchange import last_exchange

LOST = ProviderError("network", "the connection was lost", started=True)
ANSWER = (TextDelta("the rest"), FinishDelta("stop"))


@pytest.mark.matrix
@pytest.mark.parametrize("mark", [INTERRUPTED, BROKEN_OFF, CUT_OFF])
def test_a_complete_reply_that_ends_in_our_mark_is_complete(mark: str, tmp_path: Path) -> None:
    session = opened(Steps((TextDelta(f"The mark is {mark}"), FinishDelta("stop"))), tmp_path)
    say(session, "what do you write after half a reply?")
    resumed = opened(Steps(ANSWER), tmp_path, session.id)
    assert last_exchange(resumed)["finished"]
    _, outcome = say(resumed, "")
    assert outcome.error and outcome.error["message"].startswith("no prompt")


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize("end", sample([LOST, FinishDelta("length"), FinishDelta("content_filter")], 3))
def test_half_a_reply_is_unfinished_also_in_a_fork(
    end: ProviderError | FinishDelta, fork: bool, tmp_path: Path
) -> None:
    session = opened(Steps((TextDelta("half"), end)), tmp_path)
    say(session, "hi")
    name = session.id
    if fork:
        with closing(Ledger.open(places().ledger)) as ledger:
            name = ledger.fork_session(session.id, at="2026-11-22T10:00:00Z").id
    resumed = opened(Steps(ANSWER), tmp_path, name)
    assert resumed.record.ends_unfinished() and not last_exchange(resumed)["finished"]
    _, outcome = say(resumed, "")
    assert (outcome.ok, outcome.text) == (True, "the rest")
    assert last_exchange(opened(Steps(), tmp_path, name))["finished"]
