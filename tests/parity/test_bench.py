"""The bench never counts a program that did not start as one that acts the same, nor moves a pin to one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from parity import move_pins, peers
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


def test_a_pin_whose_newest_version_cannot_be_had_stays_and_one_line_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pins = tmp_path / "package.json"
    pins.write_text(json.dumps({"dependencies": {"acpx": "0.0.1", "@openai/codex": "9.9.9"}}))
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\n[ "$1" = view ] && echo 9.9.9 && exit\necho "npm error no such version" >&2; exit 1\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(move_pins, "PINS", pins)
    monkeypatch.setattr(move_pins, "PROGRAMS", tmp_path)
    before = pins.read_text()
    assert move_pins.main(["codex", "other", "acpx"]) == 2 and pins.read_text() == before
    lines = [line.partition(": ")[::2] for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [
        ("codex 9.9.9", "the newest"),
        ("other", "not moved: choose from claude, codex, pi, opencode, acpx"),
    ]
    program, why = lines[2]
    assert program == "acpx" and why.startswith("not moved: npm install acpx@") and why.endswith("no such version")
