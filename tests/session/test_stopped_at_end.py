"""What a turn reports if it is stopped while its end is saved, or if there is nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from session.played import Played, opened, say


@pytest.mark.parametrize("by", ["timeout", "person"])
def test_a_turn_stopped_while_its_end_is_saved_reports_what_it_did(by: str, tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    save = session._save

    async def save_and_stop(*, waits: bool = True) -> None:
        if not waits:  # the outcome is known, and is saved
            session._control.stop(by)
        await save(waits=waits)

    session._save = save_and_stop  # type: ignore[method-assign]
    outcome = say(session, "hi")[1]
    assert (outcome.text, outcome.steps, outcome.error) == ("the answer", 1, None)
    assert outcome.usage.input == 200


def test_a_new_session_does_not_speak_of_an_answer_if_the_text_is_empty(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    error = say(session, "")[1].error
    assert error and error["message"] == "no prompt: the text is empty"


def test_a_session_that_is_done_says_so_if_the_text_is_empty(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "the answer"), tmp_path)
    say(session, "hi")
    error = say(opened(Played(lambda request: ""), tmp_path, session.id), "")[1].error
    assert error and error["message"] == "no prompt: the last answer of this session is complete"
