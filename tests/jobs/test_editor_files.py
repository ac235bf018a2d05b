"""The job: "finish what I am typing", from an editor whose files are not saved, over the Agent Client Protocol.

What the editor shows is what the model reads and edits, what its commands find and what an undo goes back to. An editor
that fails at it costs a line, and no text of the person's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import schema
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

    def __init__(self, *, saves: bool = True, writes: bool = True) -> None:
        super().__init__()
        self.fs = schema.FileSystemCapabilities(read_text_file=True, write_text_file=writes)
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
