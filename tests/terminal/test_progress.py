"""Work that takes over a second has a bar: in a shell on stderr, in the REPL beside its spinner."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from search import sample
from terminal.repl import Opens
from terminal.stories import call
from terminal.terminal import ENTER, Terminal

WORK = """
import time
from nexus_cli.core.progress import track
from nexus_cli.ui.print import progress_bar
progress_bar.DELAY_SECONDS = {soon}
with progress_bar.progress_bar("undoing"):
    for _ in track(range(10)):
        time.sleep(0.08)
print("done")
"""
SLOW = """
import time
from nexus_cli.undo import restore
_write = restore.write_state
def slow(*arguments, **more):
    time.sleep(0.6)
    return _write(*arguments, **more)
restore.write_state = slow
"""


def shown(work: str, env: dict[str, str], tmp_path: Path) -> Terminal:
    with Terminal([sys.executable, "-c", work], env={"TERM": "xterm-256color", **env}, cwd=tmp_path) as terminal:
        assert terminal.status() == 0
        return terminal


def test_a_bar_comes_after_a_second_and_goes_with_the_work(tmp_path: Path) -> None:
    late = shown(WORK.format(soon=0.2), {}, tmp_path)
    assert b"undoing" in late.raw and b"%" in late.raw
    assert [line for line in late.lines() if line] == ["done"]
    assert b"undoing" not in shown(WORK.format(soon=5), {}, tmp_path).raw


def test_a_message_replaces_the_bar_and_the_bar_comes_back_below(tmp_path: Path) -> None:
    work = WORK.format(soon=0).replace("time.sleep(0.08)", 'time.sleep(0.08); write_stderr_line("nexus: a word")')
    told = shown("from nexus_cli.ui.print.stream import write_stderr_line\n" + work, {}, tmp_path)
    assert [line for line in told.lines() if line] == ["nexus: a word"] * 10 + ["done"] and b"undoing" in told.raw


@pytest.mark.parametrize("env", sample([{"TERM": "dumb"}, {"NO_COLOR": "1"}], 2))
def test_a_terminal_without_colours_has_no_bar(env: dict[str, str], tmp_path: Path) -> None:
    assert shown(WORK.format(soon=0), env, tmp_path).raw.strip() == b"done"


def test_an_undo_in_the_repl_shows_how_far_it_is(repl: Opens) -> None:
    files = {f"{number}.txt": "text\n" for number in range(4)}
    made = repl([call("bash", command="rm *.txt"), "Gone."], files=files, arguments=("--allow", "all"), bug=SLOW)
    made.send("remove them" + ENTER)
    made.wait_for("4 files (+0 -4)")
    made.idle()
    made.send("/undo" + ENTER)
    made.wait_for(lambda one: any("undoing  █" in line and "░ " in line and "%" in line for line in one.lines()))
    made.wait_for("Undid turn 1: 4 files restored.")
