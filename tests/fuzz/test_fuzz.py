"""A short story of each program of this folder, so that they keep working; the README of tests says how to run more."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz import arguments, histories, keys

pytestmark = pytest.mark.matrix


def test_a_short_random_history_is_undone_and_redone(tmp_path: Path) -> None:
    assert histories.play(tmp_path.resolve(), 1, turns=2) == []


def test_a_few_random_keys_leave_a_sound_session(tmp_path: Path) -> None:
    assert keys.play(tmp_path.resolve(), 1, count=20) == []


def test_a_few_random_command_lines_end_in_a_line_of_ours(tmp_path: Path) -> None:
    assert arguments.play(tmp_path.resolve(), 1, count=20) == []
