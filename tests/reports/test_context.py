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
def test_what_was_learned_of_a_model_is_in_the_report_of_a_new_session(tmp_path: Path) -> None:
    options, used = Options(tmp_path, MODEL), list[int]()
    for factor in (2.0, 1.0):
        with the_ledger() as ledger:
            ledger.calibrate(MODEL, Calibration(factor, 5, (0.1,)))
        used.append(context_report(options, Settings(), None)["budget"]["used"]["total"])
    assert used[1] < used[0]


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
