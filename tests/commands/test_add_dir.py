"""`/add-dir`: the folder counts like the project at once, the model is told, and the session keeps it."""

from __future__ import annotations

import pytest
from commands.conftest import FakeContext

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import ADDED_FOLDERS
from nexus_cli.permission.call_decision import CheckedCall
from nexus_cli.tools.registry import discover_tools


def test_an_added_folder_counts_like_the_project(
    context: FakeContext, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    library = tmp_path_factory.mktemp("library").resolve()
    file = library / "shapes.py"

    def is_granted() -> bool:
        call = CheckedCall(discover_tools()["read_file"], {"path": str(file)}, {str(file): file})
        found = context.session.dispatcher.permission.decide(call, "ask")
        return found.is_granted

    assert not is_granted()
    context.run(f"add-dir {library}")
    assert is_granted() and context.said[-1] == f"Added {library}"
    assert context.session.engine.conversation.memos(ADDED_FOLDERS)[-1].value == {"folders": [str(library)]}
    assert any(str(library) in line for line in context.session.engine.notices.waiting)
    with pytest.raises(NexusError, match="is already added"):
        context.run(f"add-dir {library}")
    context.run("add-dir")
    assert context.said[-1] == str(library)
    context.run("status")
    assert context.shown[-1][1]["added"] == [str(library)]
