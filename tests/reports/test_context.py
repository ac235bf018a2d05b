"""`nexus context` counts with what was learned of a model, as a session does."""

from __future__ import annotations

from pathlib import Path

import pytest
from session.played import MODEL, Played, opened, say, the_ledger

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.services import Calibration
from nexus_cli.reports.context import context_report, live_report
from nexus_cli.session.options import Options


@pytest.mark.matrix
@pytest.mark.parametrize(("told", "name"), [(0, ""), (50_000, MODEL), (50_000, MODEL.partition("/")[2])])
def test_a_window_that_a_refusal_named_is_the_window_of_the_report(tmp_path: Path, told: int, name: str) -> None:
    session = opened(Played(lambda request: "answer"), tmp_path)
    assert say(session, "words")[1].ok
    with the_ledger() as ledger:
        ledger.calibrate(MODEL, Calibration(2.0, 5, (0.1,), 8_000))
    settings = Settings(models={name: {"window": told}} if told else {})
    options = Options(tmp_path, MODEL)
    old, new = (context_report(options, settings, shown) for shown in (session.id, None))
    assert old["session"] == session.id and new["session"] is None
    assert old["budget"]["window"] == new["budget"]["window"] == (told or 8_000)
    plain = context_report(options, settings, session.id, 1)
    assert plain["budget"]["window"] == 16_000, "it was sent in that one"
    with the_ledger() as ledger:
        ledger.calibrate(MODEL, Calibration(1.0, 5, (0.1,), 8_000))
    assert context_report(options, settings, None)["budget"]["used"]["total"] < new["budget"]["used"]["total"]


def test_the_report_of_a_new_session_makes_no_ledger(tmp_path: Path) -> None:
    assert context_report(Options(tmp_path, MODEL), Settings(), None)["budget"]["window"] == 128_000
    assert not places().ledger.exists()


def test_a_ledger_that_cannot_be_read_has_nothing_learned(tmp_path: Path) -> None:
    places().ledger.mkdir(parents=True)
    assert context_report(Options(tmp_path, MODEL), Settings(), None)["budget"]["window"] == 128_000


@pytest.mark.matrix
def test_an_instruction_file_that_may_not_be_sent_is_listed_before_and_after_the_first_request(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".env").write_text("API_KEY=sk-ant-api03-9x8w7v6u5t4s3r2q1p0o9n8m7l6k5j4i3h2g1f0e\n")
    (tmp_path / "AGENTS.md").symlink_to(".env")
    session = opened(Played(lambda request: "well"), tmp_path)
    for is_sent in (False, True):
        if is_sent:
            say(session, "one")
        stored = context_report(Options(tmp_path, model=MODEL), Settings(), session.id if is_sent else None)
        for value in (stored, live_report(session)):
            assert sum("AGENTS.md links to" in one for one in value["notices"]) == 1, value["notices"]
