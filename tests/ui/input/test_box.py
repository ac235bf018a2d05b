"""The input box in a real application: keys through a pipe, a screen of a given size, files, git, an editor."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pyte
import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import has_focus
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output.vt100 import Vt100_Output
from search import sample

from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.ui.input import burst_reader, file_index
from nexus_cli.ui.input.attached_files import quote_mention
from nexus_cli.ui.input.box import LONG, InputBox
from nexus_cli.ui.input.paste import TypedMessage

BEGIN, END = "\x1b[200~", "\x1b[201~"
UP, DOWN, LEFT, ESCAPE, BACKSPACE, SHIFT_TAB = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b", "\x7f", "\x1b[Z"
WIDE = Size(24, 80)
LINES = "\n".join(f"line {number}" for number in range(214))


def command(name: str, help_: str) -> Command:
    async def run(desk: CommandContext, rest: str) -> None:
        pass

    run.__doc__ = help_
    complete = (lambda desk: ["fast", "slow"]) if name == "model" else None
    usage = {"model": "NAME", "x": "[N]"}.get(name, "")
    return Command(name, "nexus", run, usage, complete=complete, aliases=("why",) if name == "help" else ())


COMMANDS = {
    one.name: one
    for one in (command("x", "."), command("model", "Use another."), command("help", "Show what there is."))
}


@dataclass
class Stage:
    """A box on a screen."""

    box: InputBox
    source: PipeInput
    app: Application[None]
    written: StringIO
    size: Size
    sent: list[TypedMessage] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    async def until(self, true: Callable[[], object]) -> None:
        for _ in range(6000):
            if true():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"never came true; the box has {self.box.buffer.text[:200]!r}, sent {self.sent}")

    async def keys(self, text: str, shown: str | None = None) -> None:
        """Type `text`; wait until `shown` stands in the box, where it is given."""
        if UP in text or "\x12" in text:
            # The buffer loads its history anew, in the background, after each message: before that nothing is above.
            await self.until(self.remembers)
        self.source.send_text(text)
        if shown is not None:
            await self.until(lambda: self.box.buffer.text == shown)

    def remembers(self) -> bool:
        """The history is there."""
        loading = self.box.buffer._load_history_task
        return loading is not None and loading.done()

    async def menu(self) -> list[str]:
        """What the menu offers, when it has something to offer."""
        buffer = self.box.buffer
        await self.until(lambda: buffer.complete_state and buffer.complete_state.completions)
        assert buffer.complete_state
        return [one.display_text for one in buffer.complete_state.completions]

    def rows(self) -> list[str]:
        """What the terminal shows."""
        self.app._redraw()
        screen = pyte.Screen(self.size.columns, self.size.rows)
        screen.set_mode(pyte.modes.LNM)
        pyte.Stream(screen).feed(self.written.getvalue())
        return [row.rstrip() for row in screen.display if row.strip()]


@asynccontextmanager
async def opened(
    folder: Path, *, size: Size = WIDE, vi: bool = False, environ: dict[str, str] | None = None
) -> AsyncIterator[Stage]:
    """A box in a running application whose Enter collects what was typed."""
    written = StringIO()
    output = Vt100_Output(written, lambda: size, term="xterm", enable_cpr=False)
    with (
        patch.dict(os.environ, environ or {}),
        create_pipe_input() as source,
        create_app_session(input=source, output=output),
    ):
        box = InputBox(
            folder=folder,
            project=folder,
            commands=lambda: COMMANDS,
            desk=lambda: cast(Any, object()),
            history=folder.parent / "data" / "history",
            vi=vi,
        )
        own = KeyBindings()
        layout = Layout(HSplit([box.container, Window(FormattedTextControl("status"), height=1)]), box.buffer)
        app = Application[None](layout=layout, key_bindings=merge_key_bindings([box.bindings, own]))
        app.ttimeoutlen = app.timeoutlen = 0.02
        box.attach(app)
        stage = Stage(box, source, app, written, size)

        @own.add("enter", filter=has_focus(box.buffer))
        def _enter(event: KeyPressEvent) -> None:
            if (not box.completing or box.accept_completion()) and not box.break_line():
                stage.sent.append(box.take())

        running = asyncio.create_task(app.run_async())
        await stage.until(lambda: app.is_running and written.getvalue())
        try:
            yield stage
        finally:
            app.exit()
            await running
            box.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    for name in ("src/box.py", "src/main.py", "my docs/a b.txt", "out/skipped.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x")
    (place / ".gitignore").write_text("out\n")
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    return place


@pytest.mark.matrix
async def test_enter_takes_the_text_and_empties_the_box(folder: Path) -> None:
    async with opened(folder) as stage:
        assert stage.box.empty
        await stage.keys("hello", "hello")
        assert not stage.box.empty
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage("hello", "hello")] and stage.box.empty


async def test_ctrl_j_begins_a_new_line_and_up_and_down_move_in_it(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("one\ntwo", "one\ntwo")
        assert stage.rows() == ["> one", "  two", "status"]
        await stage.keys(UP + "X", "oneX\ntwo")
        await stage.keys(DOWN + "Y", "oneX\ntwoY")


async def test_long_lines_wrap_below_the_prompt(folder: Path) -> None:
    async with opened(folder, size=Size(10, 20)) as stage:
        await stage.keys("a" * 30 + "b" * 10, "a" * 30 + "b" * 10)
        assert stage.rows() == ["> " + "a" * 18, "  " + "a" * 12 + "b" * 6, "  bbbb", "status"]


@pytest.mark.parametrize("columns", [1, 2, 5, 11])
async def test_a_narrow_terminal_has_the_text_without_a_prompt(folder: Path, columns: int) -> None:
    async with opened(folder, size=Size(3, columns)) as stage:
        await stage.keys("ab/", "ab/")
        assert columns < 5 or stage.rows()[0] == "ab/"
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage("ab/", "ab/")] and stage.rows()


async def test_the_box_shows_invisible_characters_and_tabs(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys(f"{BEGIN}a\tb\u202ec\x00\x1b{END}!", "a\tb\u202ec\x00\x1b!")
        assert stage.rows()[0] == "> a    b<U+202E>c^@^[!"
        await stage.keys(LEFT * 2 + "X", "a\tb\u202ec\x00X\x1b!")


async def test_a_slash_opens_the_menu_below_the_text(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("/", "/")
        assert await stage.menu() == ["/help", "/model", "/x"]
        assert stage.rows() == [
            "> /",
            "> /help   Show what there is.",
            "  /model  Use another.",
            "  /x      .",
            "status",
        ]
        await stage.keys(DOWN, "/model")
        assert stage.box.completing and stage.rows()[2].startswith("> /model")
        await stage.keys(DOWN, "/x")
        await stage.keys(SHIFT_TAB, "/model")
        await stage.keys(UP, "/help")
        assert stage.rows()[1].startswith("> /help")
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage("/help", "/help")]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("typed", "text", "sent"),
    [("/he", "", "/help"), ("/x", "", "/x"), ("/mo", "/model ", None), ("/wh", "", "/why"), ("/help", "", "/help")],
)
async def test_enter_takes_the_highlighted_command_and_runs_one_that_needs_no_argument(
    folder: Path, typed: str, text: str, sent: str | None
) -> None:
    async with opened(folder) as stage:
        await stage.keys(typed, typed)
        if typed != sent:
            await stage.menu()
        await stage.keys("\r", text)
        assert stage.sent == ([TypedMessage(sent, sent)] if sent else [])


@pytest.mark.matrix
async def test_enter_takes_the_highlighted_file_and_sends_one_that_is_typed_already(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("see @box", "see @box")
        assert await stage.menu() == ["src/box.py"]
        await stage.keys("\r", "see @src/box.py ")
        assert stage.sent == []
        await stage.keys("\x17@src/", "see @src/")
        assert len(await stage.menu()) == 2
        await stage.keys("\r", "")
        await stage.keys("@my docs/a b.txt", "@my docs/a b.txt")
        await stage.keys("\x15@src/main.py", "@src/main.py")
        await stage.keys("\r", "")
        assert [one.text for one in stage.sent] == ["see @src/", "@src/main.py"]


@pytest.mark.matrix
@pytest.mark.parametrize("typed", ["!tru", "/model fa"])
async def test_enter_sends_shell_lines_and_arguments_as_they_are_typed(folder: Path, typed: str) -> None:
    async with opened(folder) as stage:
        await stage.keys(typed, typed)
        await stage.menu()
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage(typed, typed)]


async def test_shift_enter_and_a_backslash_before_enter_make_a_line(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("a\x1b[13;2ub\x1b[27;2;13~c\\\rd", "a\nb\nc\nd")
        assert stage.sent == []
        await stage.keys("\\\\\r", "")
        assert [one.text for one in stage.sent] == ["a\nb\nc\nd\\\\"]


async def test_tab_takes_the_only_completion_at_once_and_the_choices_follow(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("/mo", "/mo")
        await stage.menu()
        await stage.keys("\t", "/model ")
        assert await stage.menu() == ["fast", "slow"]
        await stage.keys(DOWN + DOWN, "/model slow")


async def test_files_are_completed_and_a_folder_goes_on(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("see @sr", "see @sr")
        assert await stage.menu() == ["src/", "src/box.py", "src/main.py"]
        await stage.keys("\t", "see @src/")
        await stage.keys("\r")
        await stage.until(lambda: not stage.box.completing)
        assert await stage.menu() == ["src/box.py", "src/main.py"]
        await stage.keys("\t", "see @src/box.py")
        await stage.keys("\r", "see @src/box.py ")


async def test_files_that_take_long_to_list_are_offered_when_they_are_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(root: Path, project: Path, stop: StopFlag) -> list[str]:
        go_on.wait(60)
        return ["deep/down/late.py"]

    monkeypatch.setattr(file_index, "PATIENCE", 0.01)

    async with opened(folder) as stage:
        stage.box._index._lister = slow
        await stage.keys("see @late", "see @late")
        await stage.until(lambda: stage.box.buffer.complete_state is None)
        go_on.set()
        assert await stage.menu() == ["deep/down/late.py"]


async def test_a_deletion_offers_again(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("@mainn", "@mainn")
        await stage.until(lambda: stage.box.buffer.complete_state is None)
        await stage.keys(BACKSPACE, "@main")
        assert await stage.menu() == ["src/main.py"]
        await stage.keys("\x15/mox", "/mox")
        await stage.until(lambda: stage.box.buffer.complete_state is None)
        await stage.keys(BACKSPACE, "/mo")
        assert await stage.menu() == ["/model"]


async def test_escape_closes_the_menu_and_gives_the_typed_text_back(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("/", "/")
        await stage.menu()
        await stage.keys("\t", "/help")
        await stage.keys(ESCAPE, "/")
        assert not stage.box.buffer.complete_state


@pytest.mark.matrix
@pytest.mark.parametrize("size", [WIDE, Size(9, 40)])
async def test_the_menu_has_at_most_eight_rows_and_fewer_in_a_low_terminal(folder: Path, size: Size) -> None:
    for number in range(40):
        (folder / f"file_{number:02}.md").write_text("")

    async with opened(folder, size=size) as stage:
        await stage.keys("@file", "@file")
        assert len(await stage.menu()) == 40
        rows = stage.rows()
        shown = min(8, stage.size.rows // 3) - 1
        assert len([row for row in rows if "file_" in row]) == shown and f"  … {40 - shown} more" in rows
        await stage.keys("\t" + UP + UP, "@file_39.md")
        assert [row for row in stage.rows() if row.startswith("> file_39.md")]


@pytest.mark.matrix
async def test_a_bracketed_paste_never_submits_and_a_long_one_is_one_unit(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys(f"{BEGIN}a\r\nb\rc\n{END}", "a\nb\nc\n")
        await stage.keys("\x15" + BACKSPACE * 10, "")
        await stage.keys("see " + BEGIN + LINES.replace("\n", "\r") + END + " ok")
        await stage.until(lambda: stage.box.buffer.text.endswith(" ok"))
        assert stage.rows()[0] == "> see [pasted 214 lines] ok"
        await stage.keys(BEGIN + LINES + END)
        await stage.until(lambda: "#2" in stage.rows()[0])
        await stage.keys(BACKSPACE)
        await stage.until(lambda: stage.rows()[0] == "> see [pasted 214 lines] ok")
        assert stage.sent == []
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage(f"see {LINES} ok", "see [pasted 214 lines] ok", (LINES,))]


async def test_the_cursor_steps_over_a_folded_paste(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("a" + BEGIN + LINES + END + LEFT + "b" + LEFT * 2 + "c")
        await stage.until(lambda: stage.rows()[0] == "> cab[pasted 214 lines]")


async def test_a_paste_cut_at_any_place_of_its_marks_is_one_paste(folder: Path) -> None:
    async with opened(folder) as stage:
        # As long as it takes: a key that is cut must not be taken for two.
        stage.app.ttimeoutlen = 60
        whole = BEGIN + "one\rtwo\r" + END + "."
        for place in range(1, len(whole)):
            stage.source.send_text(whole[:place])
            await asyncio.sleep(0.002)
            await stage.keys(whole[place:], "one\ntwo\n.")
            stage.box.fill("")
        assert stage.sent == []


@pytest.mark.matrix
async def test_a_huge_paste_is_there_at_once_and_whole(folder: Path) -> None:
    text = "0123456789abcde\n" * (16 * 65536)

    async with opened(folder) as stage:
        writer = threading.Thread(target=stage.source.send_text, args=(BEGIN + text + END + "x",))
        writer.start()
        await stage.until(lambda: stage.box.buffer.text.endswith("x"))
        writer.join()
        assert stage.rows()[0] == "> [pasted 1,048,576 lines]x" and len(stage.box.buffer.text) == 2
        await stage.keys("\r", "")
        assert stage.sent[0].text == text + "x"


async def test_more_than_the_limit_is_cut_and_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nexus_cli.ui.input.box as box_module

    monkeypatch.setattr(burst_reader, "MAX_INPUT", 2048)
    monkeypatch.setattr(box_module, "cut_to_bytes", lambda data: data[:2048])

    async with opened(folder) as stage:
        stage.box.notice = stage.told.append
        await stage.keys(BEGIN + "é\n" * 4000 + END)
        await stage.until(lambda: not stage.box.empty)
        assert stage.rows()[0] == "> [pasted 1,024 lines, cut at 64 MiB]" and "64 MiB" in stage.told[0]
        await stage.keys("\r", "")
        assert stage.sent[0].text == "é\n" * 1024


async def test_lines_that_arrive_together_are_a_paste_also_without_brackets(folder: Path) -> None:
    async with opened(folder) as stage:
        text = "def mean(values):\n    total = sum(values)\n    return total\n}"
        await stage.keys(text.replace("\n", "\r"), text)
        assert stage.sent == []
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage(text, text, (text,))]


async def test_what_is_typed_ahead_of_a_slow_program_is_sent_line_by_line(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("go on\ryes\rand")
        await stage.until(lambda: stage.sent == [TypedMessage("go on", "go on"), TypedMessage("yes", "yes")])
        await stage.until(lambda: stage.box.buffer.text == "and")


async def test_very_much_at_once_without_brackets_is_folded_and_never_submits(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys((LINES + "\n").replace("\n", "\r"))
        await stage.until(lambda: stage.rows()[0] == "> [pasted 214 lines]")
        await stage.keys("x" * 900 + "\r")
        await stage.until(lambda: stage.sent)
        assert stage.sent[0].text == LINES + "\n" + "x" * 900


@pytest.mark.matrix
async def test_a_control_key_behind_enter_is_no_paste(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("one\r\x15two")
        await stage.until(lambda: stage.sent == [TypedMessage("one", "one")] and stage.box.buffer.text == "two")


async def test_lone_surrogates_become_replacements_in_what_is_sent(folder: Path) -> None:
    async with opened(folder) as stage:
        os.write(cast(Any, stage.source).pipe.write_fd, b"a\xffb")
        await stage.until(lambda: len(stage.box.buffer.text) == 3)
        assert stage.rows()
        await stage.keys("\r", "")
        assert stage.sent == [TypedMessage("a\ufffdb", "a\ufffdb")]


@pytest.mark.matrix
async def test_history_is_gone_through_with_up_and_down_at_the_edges_of_the_text(folder: Path) -> None:
    async with opened(folder) as stage:
        for text in ("first", "second\nline"):
            await stage.keys(text, text)
            await stage.keys("\r", "")
        await stage.keys("draft", "draft")
        await stage.keys(UP, "second\nline")
        await stage.keys(UP, "second\nline")
        await stage.keys(UP, "first")
        await stage.keys(DOWN, "second\nline")
        await stage.keys(DOWN + DOWN, "draft")
    async with opened(folder) as stage:
        await stage.until(lambda: len(stage.box.buffer._working_lines) == 3)
        await stage.keys(UP, "second\nline")


@pytest.mark.matrix
@pytest.mark.parametrize("line", ["/login sk-of-a-person-01234567", "/connect openai foobarkey", "/login openai\nkey"])
async def test_a_key_typed_behind_login_is_not_in_the_history(folder: Path, line: str) -> None:
    async with opened(folder) as stage:
        stage.box.buffer.insert_text(line)
        stage.box.take()
        await stage.keys(UP, line.split()[0])
        stage.box.buffer.insert_text(line[len(line.split()[0]) :])
        stage.box.fill("")
        await stage.keys(UP, line.split()[0])


async def test_a_recalled_command_opens_no_menu(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("one", "one")
        await stage.keys("\r", "")
        await stage.keys("/hel", "/hel")
        await stage.menu()
        await stage.keys("\r", "")
        await stage.keys(UP, "/help")
        await stage.keys(UP, "one")


async def test_a_folded_paste_comes_back_whole_from_the_history(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("see " + BEGIN + LINES + END)
        await stage.until(lambda: len(stage.box.buffer.text) == 5)
        await stage.keys("\r", "")
        await stage.keys(UP, f"see {LINES}")


@pytest.mark.matrix
async def test_ctrl_r_searches_the_history_below_the_text(folder: Path) -> None:
    async with opened(folder) as stage:
        for text in ("alpha one", "beta", "Alpha two"):
            await stage.keys(text, text)
            await stage.keys("\r", "")
        await stage.keys("draft", "draft")
        await stage.keys("\x12")
        await stage.until(lambda: stage.box.searching)
        await stage.keys("alpha")
        await stage.until(lambda: stage.rows() == ["> Alpha two", "search: alpha", "status"])
        await stage.keys("\x12\x12")
        await stage.until(lambda: stage.rows()[0] == "> alpha one")
        await stage.keys("\x13")
        await stage.until(lambda: stage.rows()[:2] == ["> alpha one", "search forward: alpha"])
        await stage.keys("\r")
        await stage.until(lambda: not stage.box.searching)
        assert stage.box.buffer.text == "alpha one" and stage.sent[-1].text == "Alpha two"


@pytest.mark.matrix
async def test_what_a_search_has_found_is_marked_only_while_it_is_searched(folder: Path) -> None:
    def marked(stage: Stage) -> bool:
        stage.app._redraw()
        screen = stage.app.renderer.last_rendered_screen
        assert screen is not None
        return any("search" in cell.style for cell in screen.data_buffer[0].values())

    async with opened(folder) as stage:
        await stage.keys("alpha", "alpha")
        await stage.keys("\r", "")
        await stage.keys("\x12")
        await stage.until(lambda: stage.box.searching)
        await stage.keys("lph")
        await stage.until(lambda: stage.rows()[:2] == ["> alpha", "search: lph"])
        assert marked(stage)
        await stage.keys("\r")
        await stage.until(lambda: not stage.box.searching)
        assert stage.box.buffer.text == "alpha" and not marked(stage)
        await stage.keys("\x05s", "alphas")
        assert not marked(stage)


@pytest.mark.matrix
async def test_what_is_dropped_comes_back_with_up_and_with_undo(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("sent", "sent")
        await stage.keys("\r", "")
        await stage.keys("a long draft", "a long draft")
        stage.box.fill("")
        assert stage.box.empty
        await stage.until(lambda: len(stage.box.buffer._working_lines) == 3)
        await stage.keys(UP, "a long draft")
        await stage.keys(UP, "sent")
        await stage.keys(DOWN + DOWN, "")
        await stage.keys("\x1f", "a long draft")


@pytest.mark.parametrize("key", ["\x07", "\x03"])
async def test_a_search_is_given_up_with_ctrl_g_and_ctrl_c(folder: Path, key: str) -> None:
    async with opened(folder) as stage:
        await stage.keys("old", "old")
        await stage.keys("\r", "")
        await stage.keys("draft", "draft")
        await stage.keys("\x12")
        await stage.until(lambda: stage.box.searching)
        await stage.keys(f"ol{BEGIN}d\nx{END}")
        await stage.until(lambda: stage.rows()[:2] == ["> old", "search: old"])
        await stage.keys(key)
        await stage.until(lambda: not stage.box.searching)
        assert stage.box.buffer.text == "draft"


@pytest.mark.matrix
async def test_a_history_that_cannot_be_used_is_told_below_the_box(folder: Path) -> None:
    (folder.parent / "data").mkdir()
    (folder.parent / "data" / "history").mkdir()

    async with opened(folder) as stage:
        await stage.until(lambda: any("done without" in row or "history" in row for row in stage.rows()))
        await stage.keys("a", "a")
        assert stage.rows() == ["> a", "status"]
        await stage.keys("\r", "")
        await stage.keys(UP, "a")


def script(tmp_path: Path, code: str) -> dict[str, str]:
    path = tmp_path / "editor"
    path.write_text("#!/bin/sh\n" + code + "\n")
    path.chmod(0o755)
    return {"EDITOR": str(path), "VISUAL": ""}


@pytest.mark.matrix
@pytest.mark.parametrize("key", ["\x07", "\x18\x05"])
async def test_the_editor_gets_the_text_unfolded_and_gives_it_back(folder: Path, tmp_path: Path, key: str) -> None:
    async with opened(folder, environ=script(tmp_path, 'text="$(cat "$1")"; echo "edited: $text" > "$1"')) as stage:
        outside: list[str] = []

        async def away(work: Callable[[], Awaitable[str]]) -> str:
            outside.append("away")
            return await work()

        stage.box.outside = away
        await stage.keys("see " + BEGIN + LINES + END)
        await stage.until(lambda: len(stage.box.buffer.text) == 5)
        await stage.keys(key, f"edited: see {LINES}")
        assert outside == ["away"]
        await stage.keys("!", f"edited: see {LINES}!")


async def test_an_editor_that_fails_leaves_the_text_and_says_why(folder: Path, tmp_path: Path) -> None:
    async with opened(folder, environ=script(tmp_path, "exit 3")) as stage:
        stage.box.notice = stage.told.append
        await stage.keys(BEGIN + LINES + END + "x")
        await stage.until(lambda: len(stage.box.buffer.text) == 2)
        before = stage.box.buffer.text
        await stage.keys("\x07")
        await stage.until(lambda: stage.told)
        assert stage.box.buffer.text == before and "exit status 3" in stage.told[0] and len(stage.told) == 1


@pytest.mark.matrix
async def test_vi_keys_show_their_mode_and_v_opens_the_editor(folder: Path, tmp_path: Path) -> None:
    async with opened(folder, vi=True, environ=script(tmp_path, 'echo new > "$1"')) as stage:
        await stage.keys("word", "word")
        assert stage.rows()[0] == "i> word"
        await stage.keys(ESCAPE)
        await stage.until(lambda: stage.rows()[0] == "n> word")
        await stage.keys("0x", "ord")
        await stage.keys("v", "new")


@pytest.mark.matrix
async def test_with_vi_keys_each_message_begins_in_insert_mode(folder: Path) -> None:
    async with opened(folder, vi=True) as stage:
        await stage.keys("word", "word")
        await stage.keys(ESCAPE)
        await stage.until(lambda: stage.rows()[0] == "n> word")
        await stage.keys("\r", "")
        assert stage.rows()[0] == "i>"
        await stage.keys("dd", "dd")
        await stage.keys(ESCAPE)
        await stage.until(lambda: stage.rows()[0] == "n> dd")
        stage.box.fill("")
        assert stage.rows()[0] == "i>"


async def test_a_filled_text_takes_the_place_of_what_stood_there_and_undo_brings_that_back(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("mine", "mine")
        stage.box.fill("yours\r\nhere")
        assert stage.box.buffer.text == "yours\nhere"
        await stage.keys("\x1f", "mine")
        await stage.keys(BEGIN + LINES + END)
        await stage.until(lambda: stage.box.text == f"mine{LINES}")
        stage.box.fill(stage.box.buffer.text + "\n" + "y" * LONG)
        assert stage.box.text == f"mine{LINES}\n" + "y" * LONG
        stage.box.fill("z" * (LONG + 1))
        assert len(stage.box.buffer.text) == 1 and stage.rows()[0] == f"> [{LONG + 1:,} characters]"
        await stage.keys("\r", "")
        assert stage.sent[0].text == "z" * (LONG + 1)


@pytest.mark.matrix
async def test_a_hint_stands_below_the_text_until_it_changes(folder: Path) -> None:
    async with opened(folder) as stage:
        stage.box.hint("careful \x1b[31m")
        assert stage.rows() == [">", "careful \u241b[31m", "status"]
        await stage.keys("a", "a")
        assert stage.rows() == ["> a", "status"]


PNG, PDF = b"\x89PNG\r\n\x1a\n" + bytes(8), b"%PDF-1.4\n"


@pytest.mark.parametrize(
    ("written", "shown", "files"),
    sample(
        [
            ("{0}/pic\\ one.png ", "[Image #1] ", ("pic one.png",)),
            ("'{0}/pic one.png' {0}/a.pdf", "[Image #1] [PDF #1] ", ("pic one.png", "a.pdf")),
            ("{0}/pic one.png\n", "[Image #1] ", ("pic one.png",)),
            ("file://{1}/pic%20one.png", "[Image #1] ", ("pic one.png",)),
            ("{0}/pic\\ one.png {0}/fake.png", None, ()),
            ("see {0}/pic\\ one.png", None, ()),
            ("{0}/gone.png", None, ()),
            ("pic.png", None, ()),
            ("'{0}/pic one.png", None, ()),
        ],
        4,
    ),
)
async def test_a_pasted_path_of_a_picture_is_an_attachment(
    folder: Path, written: str, shown: str | None, files: tuple[str, ...]
) -> None:
    (folder / "pic one.png").write_bytes(PNG)
    (folder / "pic.png").write_bytes(PNG)
    (folder / "a.pdf").write_bytes(PDF)
    (folder / "fake.png").write_bytes(b"no picture")
    pasted = written.format(folder, str(folder).replace(" ", "%20"))

    async with opened(folder) as stage:
        await stage.keys(BEGIN + pasted + END)
        await stage.until(lambda: stage.box.buffer.text != "")
        typed = stage.box.take()
        assert typed.display == (pasted if shown is None else shown)
        assert typed.files == tuple(quote_mention(str(folder / name)) for name in files)
        assert typed.text == (pasted if shown is None else "".join(f"{one} " for one in typed.files))


async def test_ctrl_v_attaches_the_image_on_the_clipboard(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("see \x16", "see ")
        await stage.until(lambda: "no image could be read from the clipboard" in stage.rows())

        async def saved() -> str:
            return "/a b/one.png"

        stage.box.clipboard_image = saved
        await stage.keys("\x16")
        await stage.until(lambda: "[Image #1]" in stage.rows()[0])
        await stage.keys("\x16")
        await stage.until(lambda: "[Image #2]" in stage.rows()[0])
        await stage.keys("here")
        await stage.until(lambda: stage.rows()[0] == "> see [Image #1] [Image #2] here")
        assert stage.box.take().text == 'see @"/a b/one.png" @"/a b/one.png" here'


@pytest.mark.matrix
async def test_nothing_of_the_box_works_while_another_field_has_the_focus(folder: Path) -> None:
    async with opened(folder) as stage:
        await stage.keys("\x12")
        await stage.until(lambda: stage.box.searching)
        before = stage.box.buffer.text
        await stage.keys("\t/x" + BEGIN + LINES + END)
        await stage.until(lambda: "line 0" in stage.box.search_buffer.text)
        assert stage.box.buffer.text == before and "\n" not in stage.box.search_buffer.text


@pytest.mark.matrix
@pytest.mark.parametrize("before", ["!file ", " !!file ", "see", "@"])
async def test_a_path_in_a_shell_command_or_behind_half_a_word_stays_text(folder: Path, before: str) -> None:
    (folder / "pic.png").write_bytes(PNG)

    async with opened(folder) as stage:
        stage.box.buffer.insert_text(before)
        stage.box.paste(f"{folder}/pic.png")
        assert stage.box.take().files == () and stage.box.buffer.text == ""
        stage.box.buffer.insert_text("look at ")
        stage.box.paste(f"{folder}/pic.png")
        assert stage.box.take().display == "look at [Image #1] "
