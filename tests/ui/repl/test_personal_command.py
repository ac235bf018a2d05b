"""A command of the person's settings: what it gets, what is shown of it, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from ui.put_clock import run_at_once
from ui.render.test_status_line import STATUS, line

from nexus_cli.cli.terminal_view import TerminalView
from nexus_cli.config.settings import Settings, UiSettings
from nexus_cli.core.errors import NexusError
from nexus_cli.session.status import Status
from nexus_cli.ui.render.status_line import status_line
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl import personal_command
from nexus_cli.ui.repl.personal_command import StatusCommand, describe_status, run_personal_command
from nexus_cli.ui.screen.notification import AWAY_SECONDS
from nexus_cli.ui.screen.screen import Screen


def run(command: str, folder: Path) -> str:
    return asyncio.run(run_personal_command("ui.status_command", command, folder, {"a": "ä"}))


def test_the_first_line_of_the_output_counts_without_codes(tmp_path: Path) -> None:
    assert run("cat; pwd", tmp_path) == '{"a":"ä"}'
    assert run("printf '\\n\\033[31mred\\033[0m\\007\\nmore'", tmp_path) == "red␇"
    assert run("true", tmp_path) == ""
    assert len(run("head -c 100000 /dev/zero | tr '\\0' x", tmp_path)) <= personal_command.LENGTH


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo no such thing >&2; exit 3", "exit status 3: no such thing"),
        ("exit 1", "exit status 1"),
        ("sleep 60", "timed out after 0.2 s"),
    ],
)
def test_a_command_that_fails_or_does_not_end_is_one_line(
    command: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal_command, "SECONDS", 0.2)
    with pytest.raises(NexusError) as failed:
        run(command, tmp_path)
    assert failed.value.line == f"nexus: ui.status_command: {why}. Fix the command; see `nexus docs personal`."


def test_the_status_has_the_keys_of_claude_code() -> None:
    value = json.loads(json.dumps(describe_status(replace(STATUS, used=28_000, allow="auto"))))
    assert value["model"] == {"id": "openai/gpt-5", "display_name": "gpt-5"}
    assert value["workspace"]["current_dir"] == value["cwd"] == "/home/me/src/nexus"
    assert (value["cost"]["total_cost_usd"], value["level"]) == (0.0123, "auto")
    assert value["context_window"] == {
        "context_window_size": 112_000,
        "total_input_tokens": 28_000,
        "used_percentage": 25.0,
    }


class Board:
    """A `StatusCommand` with what it said."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.lines: list[str] = []
        self.command = StatusCommand(
            lambda work: self.tasks.append(asyncio.ensure_future(work)), lambda: self.lines.append(self.command.line)
        )

    async def show(self, command: str, *statuses: Status) -> list[str]:
        """The errors."""
        for status in statuses:
            self.command.update(command, status)
        done = await asyncio.gather(*self.tasks, return_exceptions=True)
        return [error.why for error in done if isinstance(error, NexusError)]


def play(work: Callable[[Board, Status], object], folder: Path) -> Board:
    async def played() -> Board:
        board = Board()
        await work(board, replace(STATUS, folder=str(folder)))  # type: ignore[misc]
        return board

    return asyncio.run(played())


def test_of_several_changes_the_newest_counts_and_the_command_runs_once(tmp_path: Path) -> None:
    command = "echo >>runs; grep -o 'total_input_tokens.:[0-9]*'"

    async def work(board: Board, status: Status) -> None:
        await board.show(command, *(replace(status, used=used) for used in (1, 2, 3)))
        await board.show(command, replace(status, used=4))
        await board.show("", status)

    board = play(work, tmp_path)
    assert board.lines == ['total_input_tokens":3', 'total_input_tokens":4', ""]
    assert (tmp_path / "runs").read_text() == "\n\n" and len(board.tasks) == 3


def test_a_problem_is_said_once_and_the_own_line_of_nexus_comes_back(tmp_path: Path) -> None:
    async def work(board: Board, status: Status) -> None:
        await board.show("test -e gone || echo here", status)
        (tmp_path / "gone").touch()
        for _ in range(2):
            assert await board.show("exit 4", status) == ["exit status 4"]

    assert play(work, tmp_path).lines == ["here", ""]


def test_beside_the_persons_line_stands_what_asks_for_attention() -> None:
    theme = Theme(colour=False)
    status = replace(STATUS, asking=2, allow="all")
    assert "gpt-5" in line(100, status)
    shown = status_line(status, 100, theme, own="mine")
    assert shown == "mine · all · 2 runs to answer: /runs · 3 left out · not saved"
    assert status_line(STATUS, 12, theme, own="0123456789abcdef") == "0123456789a"[:10] + theme.signs.cut
    assert status_line(replace(STATUS, drops=0, saved=True), 40, theme, own="mine") == "mine"


def test_who_is_away_gets_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop:
        tasks: ClassVar[list[asyncio.Future[None]]] = []

        @property
        def jobs(self) -> Loop:
            return self

        def start_background(self, work: Coroutine[Any, Any, None]) -> None:
            self.tasks.append(asyncio.ensure_future(work))

    async def work() -> None:
        view = TerminalView(Settings(), tmp_path, save=False)
        screen, loop = view.view, Loop()
        assert isinstance(screen, Screen) and screen.notifier.run is None
        view._repl = cast(Any, loop)
        for notify in (True, False):
            view.apply(Settings(ui=UiSettings(notify=notify, notify_command="cat >written")))
            assert screen.notifier.enabled == notify
        screen.notifier.note_key()
        screen.notify("while they are there")
        await asyncio.sleep(AWAY_SECONDS)
        assert not loop.tasks
        screen.notify("done after 3 s in x")
        await asyncio.gather(*loop.tasks)
        view.close()

    monkeypatch.setenv("TERM", "xterm")
    run_at_once(work())
    value = json.loads((tmp_path / "written").read_text())
    assert value["message"] == "done after 3 s in x" and value["cwd"] == str(tmp_path)
