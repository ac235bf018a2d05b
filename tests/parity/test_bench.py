"""The bench never counts a program that did not start as one that acts the same, nor moves a pin to one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from parity import peers
from parity.peers import NotRun
from parity.rows import ROWS, Played
from parity.run import check_ran


def test_a_program_that_sent_no_request_was_not_run(tmp_path: Path) -> None:
    cannot_start, ran = Played(tmp_path, tmp_path, [], 1), Played(tmp_path, tmp_path, ["{}"], 1)
    assert check_ran(ROWS[0], ran) is ran
    with pytest.raises(NotRun, match="it sent no request, exit status 1"):
        check_ran(ROWS[0], cannot_start)
    assert check_ran(replace(ROWS[0], sends_nothing=True), cannot_start) is cannot_start


def test_a_program_that_takes_too_long_was_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "SECONDS", 0.1)
    with pytest.raises(NotRun, match="sleep took more than"):
        peers._run(["sleep", "600"], tmp_path, tmp_path, {})
