"""Unsaved texts of an editor that gives none any more, and paths that no editor has a text of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexus_cli.core.services import EditorTexts
from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.editor_texts import LARGEST, UNKNOWN, read_shown_file, save_text, show_disk


class Texts:
    """An editor that shows `text`, and saves what it is given."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.unsaved: dict[Path, str] = {}
        self.compared: dict[Path, tuple[str, str | None]] = {}
        self.written: list[str] = []

    def read(self, path: Path) -> str | None:
        return self.text

    def write(self, path: Path, text: str) -> str:
        self.written.append(text)
        path.write_text(text)
        return ""


def shown(path: Path, editor: Texts) -> str:
    return read_shown_file(path, {EditorTexts: editor}).data.decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a"
    made.write_text("disk\n")
    return made


def test_a_text_that_is_not_given_any_more_is_unsaved_until_the_file_changes(path: Path) -> None:
    editor = Texts("typed\n")
    assert shown(path, editor) == "typed\n" and editor.unsaved == {path: "typed\n"}
    editor.text = None
    assert save_text(path, editor, StopFlag()) == UNKNOWN and path.read_text() == "disk\n" and not editor.written
    path.write_text("typed\n")  # the person saved it
    assert save_text(path, editor, StopFlag()) == "" and not editor.unsaved


def test_a_folder_a_missing_file_and_bytes_have_no_text(path: Path, tmp_path: Path) -> None:
    editor = Texts("typed\n")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "mark").write_bytes(b"\xef\xbb\xbfx\n")
    (tmp_path / "large").write_bytes(b"x" * (LARGEST + 1))
    for other in (tmp_path, *(tmp_path / name for name in ("none", "latin", "mark", "large"))):
        assert save_text(other, editor, StopFlag()) == "" and not editor.unsaved
        show_disk(other, editor)
    assert not editor.written
    path.unlink()
    with pytest.raises(FileNotFoundError):
        shown(path, editor)


def test_a_link_in_the_place_of_the_file_gives_no_text(path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """The editor follows a link that is put there between two looks."""
    editor = Texts("a secret\n")
    (tmp_path / "other").write_text("a secret\n")

    def exchange(asked: Path) -> str:
        path.unlink()
        path.symlink_to("other")
        return "a secret\n"

    monkeypatch.setattr(editor, "read", exchange)
    with pytest.raises(OSError, match="link"):
        shown(path, editor)
    assert not editor.unsaved and save_text(path, editor, StopFlag()) == ""


def test_what_is_stopped_is_not_saved(path: Path) -> None:
    editor, stop = Texts("typed\n"), StopFlag()
    stop.press()
    with pytest.raises(ThreadStopped):
        save_text(path, editor, stop)
    assert not editor.written and path.read_text() == "disk\n"


def test_the_disk_is_shown_only_in_place_of_the_text_that_it_had(path: Path) -> None:
    editor = Texts("disk\n")
    assert shown(path, editor) == "disk\n"
    path.write_text("undone\n")
    editor.text = "typed meanwhile\n"
    show_disk(path, editor)
    assert not editor.written
    editor.text = "disk\n"
    show_disk(path, editor)
    assert editor.written == ["undone\n"]
    assert shown(path, editor) == "undone\n", "the editor shows an older text"
    show_disk(path, editor)
    assert editor.written == ["undone\n"], "nobody knows whose text that is"
