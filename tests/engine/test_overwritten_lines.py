"""Of a line that a command overwrites, a progress bar for example, the model reads the last state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from engine.test_files_read_whole import results
from laws.world import exact

from nexus_cli.core.elide import last_states

BAR = "for i in $(seq 3000); do printf '\\rDownloading %4d/3000 [%s]' $i '#######'; done; printf '\\n'; echo done"
LEFT = re.compile(r'\[([\d,]+) overwritten lines? left out: recall\("(d\d+)"\)\]\n')


def test_a_progress_bar_comes_as_its_last_state_and_the_others_can_be_recalled(tmp_path: Path) -> None:
    shown, recalled = results(
        tmp_path, 64_000, [("bash", {"command": BAR})], [("recall", {"id": "d1", "query": "1234/3000"})]
    )
    found = LEFT.match(shown)
    assert found and found.groups() == ("2,999", "d1")
    assert shown[found.end() :] == "Downloading 3000/3000 [#######]\ndone\n[exit status 0]"
    assert exact(shown) < 60
    assert "Downloading 1234/3000" in recalled


@pytest.mark.matrix
def test_an_output_that_is_cut_has_no_overwritten_state_either(tmp_path: Path) -> None:
    command = "w=cdefgh; for i in $(seq 6000); do printf 'a%d\\rb%d\\n%s\\n' $i $i ${w:i%6:1}; done"
    shown, recalled = results(tmp_path, 64_000, [("bash", {"command": command})], [("recall", {"id": "d2"})])
    assert LEFT.match(shown) and 'left out: recall("d2", "' in shown
    assert "\r" not in shown and not re.search(r"^a\d", shown, re.MULTILINE)
    assert "b1\n" in recalled and "a1" not in recalled


@pytest.mark.matrix
def test_the_text_of_a_file_keeps_its_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes(b"one\rtwo\rthree\r")
    shown, copied = results(
        tmp_path, 64_000, [("read_file", {"path": "old.txt"}), ("bash", {"command": "printf 'a\\r\\nb\\r\\n'"})]
    )
    assert "one\rtwo\rthree" in shown and copied == "a\r\nb\r\n[exit status 0]"


@pytest.mark.matrix
def test_a_few_overwritten_words_stay_because_a_marker_is_longer(tmp_path: Path) -> None:
    (shown,) = results(tmp_path, 64_000, [("bash", {"command": "printf 'Rebasing (1/3)\\rdone\\n'"})])
    assert shown == "Rebasing (1/3)\rdone\n[exit status 0]"


def test_the_last_state_of_a_line_is_the_last_that_shows_something() -> None:
    assert last_states("one\r\r\ntwo") == ("one\r\r\ntwo", 0)
    assert last_states("10 %\r100 %\r     \rnext\r\n") == ("next\r\n", 2)
    assert last_states("10 %\r100 %\r     \n\rdone") == ("100 %\ndone", 1)
    assert last_states("\r   \r\n") == ("\r\n", 0)
