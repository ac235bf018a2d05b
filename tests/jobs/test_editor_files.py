"""The job: "finish what I am typing", from an editor whose files are not saved, over the Agent Client Protocol.

What the editor shows is what the model reads and edits, what its commands find and what an undo goes back to. An editor
that fails at it costs a line, and no text of the person's.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from acp.exceptions import RequestError
from images import png
from program.editor import Editor, connected, live, text
from program.stage import MODEL, PRICED, QUICK, Stage, calls, stage

DISK = "def price():\n    return 1\n"
TYPED = "def price():\n    return 1  # typed\n"
EDITED = "def price():\n    return 2  # typed\n"
READ = ("read_file", {"path": "price.py"})
EDIT = ("edit_file", {"path": "price.py", "edits": [{"old": "return 1", "new": "return 2"}]})
SHOW = ("bash", {"command": "cat price.py"})


class Typing(Editor):
    """An editor with unsaved texts; it saves what it is given, and asks nobody."""

    def __init__(self, *, saves: bool = True) -> None:
        super().__init__()
        self.fs = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        self.texts: dict[str, str] = {}
        self.asked: list[str] = []
        self.saves = saves

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> Any:
        self.asked.append(path)
        shown = self.texts.get(path)
        return schema.ReadTextFileResponse(content=Path(path).read_text() if shown is None else shown)

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        self.texts[path] = content
        if self.saves:
            Path(path).write_text(content)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(f'model = "{MODEL}"\n{QUICK}{PRICED}')
        (made.folder / "price.py").write_text(DISK)
        (made.folder / "other.py").write_text("other = 1\n")
        yield made


def play(place: Stage, editor: Editor, steps: list[Any], *more: str, level: str = "all") -> list[str]:
    """Run a prompt in which the model makes these calls, then prompts of the person; return the results."""
    place.script([*(calls(*step) if isinstance(step, list) else calls(step) for step in steps), *["Done."] * 4])

    async def work() -> None:
        async with connected(place, editor, "--allow", level) as (agent, _):
            opened = await agent.new_session(str(place.folder), mcp_servers=[])
            for words in ("go", *more):
                await agent.prompt(opened.session_id, [text(words)])

    live(work)
    return [one.raw_output["text"] for one in editor.of(schema.ToolCallProgress) if one.status]


@pytest.mark.parametrize("saves", [True, False])
def test_unsaved_text_is_read_edited_run_and_gone_back_to(place: Stage, saves: bool) -> None:
    editor, path = Typing(saves=saves), place.folder / "price.py"
    editor.texts[str(path)] = TYPED
    steps = [READ, ("bash", {"command": "cat price.py; cat other.py"}), EDIT, SHOW]
    read, ran, edited, shown = play(place, editor, steps, "/undo")
    assert read == TYPED and ran == f"{TYPED}other = 1\n\n[exit status 0]".replace("\n\n", "\n")
    assert "return 2" in edited and shown.startswith(EDITED)
    assert path.read_text() == TYPED and editor.texts[str(path)] == TYPED, "the undo goes back to what was typed"


def test_each_tool_that_edits_takes_the_text_of_the_editor_and_keeps_line_ends(place: Stage) -> None:
    editor, path = Typing(), place.folder / "price.py"
    path.write_bytes(DISK.replace("\n", "\r\n").encode())
    editor.texts[str(path)] = TYPED  # editors keep line ends apart
    patch = "*** Begin Patch\n*** Update File: price.py\n@@\n-    return 1  # typed\n+    return 3\n*** End Patch"
    steps = [
        READ,
        ("apply_patch", {"input": patch}),
        READ,
        ("edit_file", {"path": "price.py", "edits": [{"old": "def", "new": "import os\ndef"}]}),
        ("write_file", {"path": "price.py", "content": "one\ntwo\n"}),
        ("write_file", {"path": "new.py", "content": "new\n"}),
    ]
    told = play(place, editor, steps)
    assert "return 1  # typed" in told[0] and "CRLF" in told[0], told
    assert path.read_bytes() == b"one\r\ntwo\r\n" and editor.texts[str(path)] == "one\r\ntwo\r\n", told
    assert (place.folder / "new.py").read_text() == "new\n" and str(place.folder / "new.py") not in editor.texts


def test_a_question_shows_what_an_edit_makes_of_the_unsaved_text(place: Stage) -> None:
    editor, path = Typing(), place.folder / "price.py"
    editor.texts[str(path)] = TYPED
    told = play(place, editor, [READ, ("write_file", {"path": "price.py", "content": "x\n"})], level="ask")
    [(asked, _, _)] = editor.questions
    [diff] = [one for one in asked.content or () if isinstance(one, schema.FileEditToolCallContent)]
    assert (diff.old_text, diff.new_text) == (TYPED, "x\n"), told
    assert path.read_text() == "x\n"


def test_a_text_that_the_editor_has_not_read_again_is_not_taken_for_unsaved(place: Stage) -> None:
    """A command has changed the file, and the editor shows it as it was: nothing may bring that back."""
    editor, path = Typing(), place.folder / "price.py"
    editor.texts[str(path)] = DISK
    editor.texts[str(place.folder / "other.py")] = "other = 1\n"
    change = ("bash", {"command": "sed -i 's/1/7/' price.py other.py"})
    other = ("edit_file", {"path": "other.py", "edits": [{"old": "7", "new": "8"}]})
    edit = ("edit_file", {"path": "price.py", "edits": [{"old": "return 7", "new": "return 9"}]})
    told = play(place, editor, [READ, change, READ, edit, other])
    assert "return 7" in told[2], told
    assert path.read_text() == "def price():\n    return 9\n", told
    assert (place.folder / "other.py").read_text() == "other = 8\n", "never read before the command"


async def test_a_text_that_is_older_than_a_stopped_command_is_not_taken_for_unsaved(place: Stage) -> None:
    editor, path = Typing(), place.folder / "price.py"
    editor.texts[str(path)] = DISK
    change = {"command": "sed -i s/1/7/ price.py; printf 'changed %s\\n' it; sleep 600"}
    place.script([calls(("bash", change)), calls(READ), "Done."])

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("go")]))
        await editor.until(lambda: "changed it" in str(editor.updates))
        await agent.cancel(opened.session_id)
        await turn
        await agent.prompt(opened.session_id, [text("again")])
    told = [one.raw_output["text"] for one in editor.of(schema.ToolCallProgress) if one.status]
    assert "return 7" in told[-1], told


def test_a_command_says_what_it_saw_where_the_session_may_not_edit(place: Stage) -> None:
    editor, path = Typing(), place.folder / "price.py"
    editor.texts[str(path)] = TYPED
    place.settings(f'model = "{MODEL}"\n{QUICK}{PRICED}[rules]\ndeny = ["edit_file(price.py)"]\n')
    told = play(place, editor, [READ, SHOW])
    assert told[0] == TYPED and told[1].startswith(DISK), told
    assert "[the command read the files on disk; unsaved text in the editor is not on disk: price.py" in told[1], told
    assert path.read_text() == DISK and editor.texts[str(path)] == TYPED


def test_a_search_stays_on_the_disk_and_names_the_files_with_other_text(place: Stage) -> None:
    editor = Typing()
    editor.texts[str(place.folder / "price.py")] = TYPED
    search = ("grep", {"pattern": "return|other"})
    told = play(place, editor, [search, READ, ("grep", {"pattern": "other"})])
    line = "[searched as saved; the editor has unsaved changes in: price.py]"
    assert [line in one for one in told] == [True, False, True], told


async def test_an_undo_keeps_what_was_typed_after_an_edit(place: Stage) -> None:
    editor, path = Typing(), place.folder / "price.py"
    editor.texts[str(path)] = TYPED
    place.script([calls(EDIT), "Done."])

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.prompt(opened.session_id, [text("go")])
        assert path.read_text() == EDITED
        editor.texts[str(path)] = f"{EDITED}\n\n\n\n\nlater = 1\n"
        await agent.prompt(opened.session_id, [text("/undo")])
    assert "later = 1" in path.read_text() and editor.texts[str(path)] == path.read_text()


async def test_what_the_person_takes_back_in_the_editor_is_unsaved_text_again(place: Stage) -> None:
    editor, path = Typing(), place.folder / "price.py"
    place.script([calls(READ), calls(EDIT), "Done.", calls(READ), calls(EDIT), "Done."])

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.prompt(opened.session_id, [text("go")])
        assert "return 2" in path.read_text()
        editor.texts[str(path)] = DISK
        await agent.prompt(opened.session_id, [text("again")])
    told = [one.raw_output["text"] for one in editor.of(schema.ToolCallProgress) if one.status]
    assert told[2] == DISK and "return 2" in path.read_text(), told


@pytest.mark.parametrize("gives", [True, False])
def test_without_the_capability_the_disk_alone_is_read_and_written(place: Stage, gives: bool) -> None:
    """One that gives texts and takes none cannot have an edit."""
    editor, path = Typing(), place.folder / "price.py"
    editor.fs = schema.FileSystemCapabilities(read_text_file=gives)
    editor.texts[str(path)] = TYPED
    assert play(place, editor, [READ, EDIT])[0] == DISK
    assert path.read_text() == "def price():\n    return 2\n" and not editor.asked


def test_files_outside_of_the_session_and_those_that_are_refused_are_not_asked_for(place: Stage) -> None:
    editor, outside = Typing(), place.folder.parent / "outside.py"
    outside.write_text("outside = 1\n")
    for path in (outside, place.folder / "other.py"):
        editor.texts[str(path)] = "what the editor shows\n"
    place.settings(f'model = "{MODEL}"\n{QUICK}{PRICED}[rules]\ndeny = ["read_file(other.py)"]\n')
    steps = [("read_file", {"path": str(outside)}), ("read_file", {"path": "other.py"})]
    told = play(place, editor, steps)
    assert told[0] == "outside = 1\n" and "editor shows" not in told[1] and not editor.asked, told


class Failing(Typing):
    """An editor whose answers are wrong, in one way of `WAYS`."""

    way = ""

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> Any:
        shown = await super().read_text_file(session_id, path)
        match self.way:
            case "read error":
                raise RequestError(-32603, "Internal\nerror \x1b[31m" + "x" * 5000)
            case "wrong type":
                return {"content": ["a", 1]}
            case "no object":
                return [1]
            case "hangs":
                await asyncio.sleep(3600)
            case "other text":
                return schema.ReadTextFileResponse(content=f"{len(self.asked)}\n")
        return shown

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        if self.way == "write error":
            raise RequestError(-32603, "the file is locked")
        if self.way == "formats":
            content = content.replace("2", "2.0")
        return await super().write_text_file(session_id, path, content)


@pytest.mark.parametrize("way", ["read error", "wrong type", "no object", "hangs"])
def test_an_editor_that_gives_no_text_costs_one_line(place: Stage, way: str) -> None:
    editor, path = Failing(), place.folder / "price.py"
    editor.way = way
    editor.texts[str(path)] = TYPED
    told = play(place, editor, [READ, EDIT, SHOW])
    assert told[0] == DISK and told[2].startswith("def price():\n    return 2\n"), told
    assert editor.texts[str(path)] == TYPED, "what was typed is still there"
    notes = [one for one in editor.said(schema.AgentThoughtChunk).splitlines() if "editor did not" in one]
    assert len(notes) == 1 and "its unsaved changes are not known" in notes[0] and len(notes[0]) < 400, notes
    assert "\x1b" not in notes[0]


def test_an_editor_that_cannot_save_loses_no_text(place: Stage) -> None:
    editor, path = Failing(), place.folder / "price.py"
    editor.way = "write error"
    editor.texts[str(path)] = TYPED
    told = play(place, editor, [READ, EDIT, SHOW])
    assert "Ask the person to save it" in told[1] and "the file is locked" in told[1], told
    assert "[the command read the files on disk;" in told[2], told
    assert path.read_text() == DISK and editor.texts[str(path)] == TYPED
    (place.folder / "other.py").write_text(DISK)
    told = play(place, editor, [("edit_file", {**EDIT[1], "path": "other.py"})])
    assert "the file is locked" in told[-1] and (place.folder / "other.py").read_text() == DISK, "a refusal is one"


def test_an_editor_that_shows_another_text_each_time_permits_nothing(place: Stage) -> None:
    editor, path = Failing(), place.folder / "price.py"
    editor.way = "other text"
    told = play(place, editor, [READ, EDIT, ("write_file", {"path": "price.py", "content": "x\n"}), SHOW], level="edit")
    assert all("read it again" in one or "do not" in one or "old" in one for one in told[1:3]), told
    assert path.read_text() != "x\n" and "return 2" not in path.read_text()


def test_an_edit_says_that_the_editor_formatted_the_file_as_it_saved(place: Stage) -> None:
    editor, path = Failing(), place.folder / "price.py"
    editor.way = "formats"
    again = ("edit_file", {"path": "price.py", "edits": [{"old": "return 2", "new": "return 3"}]})
    told = play(place, editor, [READ, EDIT, again])
    assert "changed on disk since it was read" in told[2] and "2 return 3.0" in told[2], told
    assert "return 3.0" in path.read_text()


async def test_an_editor_that_leaves_while_it_is_asked_ends_the_program(place: Stage) -> None:
    class Leaving(Typing):
        async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> Any:
            self.asked.append(path)
            self.moved.set()
            await asyncio.sleep(3600)

    editor = Leaving()
    place.script([calls(READ), "Done."])

    async with connected(place, editor) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, [text("go")]))
        turn.add_done_callback(lambda task: task.cancelled() or task.exception())
        await editor.until(lambda: bool(editor.asked))
    assert place.run("sessions", "list", "--json").result["sessions"]


def test_a_job_beside_the_turn_keeps_the_editor_from_being_asked(place: Stage) -> None:
    """A command that runs on could put a link in the place of a folder, which the editor would follow."""
    editor = Typing()
    editor.texts[str(place.folder / "price.py")] = TYPED
    job = ("bash", {"command": "sleep 600", "background": True})
    told = play(place, editor, [job, READ])
    assert told[1] == DISK and not editor.asked, told
    assert editor.said(schema.AgentThoughtChunk).count("while background commands run") == 1


@pytest.mark.parametrize("runs_job", [False, True])
async def test_a_worker_reads_the_text_of_the_editor_too_unless_it_runs_a_job(place: Stage, runs_job: bool) -> None:
    editor = Typing()
    steps = [calls(("bash", {"command": "sleep 600", "background": True}))] * runs_job + [calls(READ)]
    editor.texts[str(place.folder / "price.py")] = TYPED

    def model(body: Any) -> Any:
        words = json.dumps(body["messages"])
        if "LOOK" not in words:
            return calls(("agent", {"task": "LOOK at price.py"}))
        if "LOOK" in str(body["messages"][1:2]) and steps:
            return steps.pop(0)
        return {"text": str(body["messages"][-1]["content"])[-300:]}

    place.script(model)

    async with connected(place, editor, "--allow", "all") as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.prompt(opened.session_id, [text("go")])
    told = "".join(str(one.raw_output) for one in editor.of(schema.ToolCallProgress))
    assert "return 1" in told and ("# typed" in told) is not runs_job, editor.said()


async def test_images_of_the_person_are_there_when_a_session_is_loaded(place: Stage) -> None:
    place.script(["A dot.", "Again."])
    first, second = Editor(), Editor()
    data = base64.b64encode(png()).decode()
    image = schema.ImageContentBlock(type="image", mime_type="image/png", data=data)

    async with connected(place, first) as (agent, _):
        opened = await agent.new_session(str(place.folder), mcp_servers=[])
        await agent.prompt(opened.session_id, [text("What is this?"), image])
        await agent.prompt(opened.session_id, [image])
    async with connected(place, second) as (agent, _):
        await agent.load_session(str(place.folder), opened.session_id, mcp_servers=[])
    chunks = [one.content for one in second.of(schema.UserMessageChunk)]
    assert [one.type for one in chunks] == ["text", "image", "image"], chunks
    assert {(one.mime_type, one.data) for one in chunks[1:]} == {("image/png", data)}
