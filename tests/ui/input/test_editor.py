"""The external editor: real programs that edit, fail, delete and spoil; and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from search import sample

from nexus_cli.core.errors import NexusError
from nexus_cli.ui.input.editor import edit_text, find_editor


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; empty again after each test."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []


def script(tmp_path: Path, code: str) -> str:
    """An editor with an argument of its own; `$1` is that, `$2` the file."""
    path = tmp_path / "an editor"
    path.write_text("#!/bin/sh\n" + code + "\n")
    path.chmod(0o755)
    return f"{shlex.quote(str(path))} --wait"


def edited(text: str, command: str, name: str = "EDITOR") -> str:
    with patch.dict(os.environ, {name: command, "PATH": os.environ["PATH"]}, clear=True):
        return asyncio.run(edit_text(text))


def test_what_the_editor_leaves_is_the_text(tmp_path: Path) -> None:
    assert edited("one\ntwo", script(tmp_path, 'echo one > "$2"; echo three >> "$2"')) == "one\nthree"
    assert edited("", script(tmp_path, 'printf "a\\r\\nb\\n\\n" > "$2"')) == "a\nb\n"


def test_the_file_is_private_has_a_suffix_and_its_folder_too(tmp_path: Path) -> None:
    command = script(
        tmp_path, '(ls -ld "$2"; ls -ld "$(dirname "$2")") | cut -c1-10 > "$0.seen"; echo "$1 $2" >> "$0.seen"'
    )
    edited("x", command)
    seen = Path(f"{tmp_path}/an editor.seen").read_text().split()
    assert seen[:3] == ["-rw-------", "drwx------", "--wait"] and seen[3].endswith(".md")


def test_the_editor_is_started_without_the_environment_of_nexus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    environ = {"EDITOR": script(tmp_path, 'printf "$PATH" > "$2"'), "PATH": f"{sys.prefix}/bin:{os.defpath}"}
    theirs = environ["PATH"] if sys.prefix == sys.base_prefix else os.defpath
    with patch.dict(os.environ, environ, clear=True):
        assert asyncio.run(edit_text("")) == theirs


def test_an_editor_in_the_project_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vi").write_text('#!/bin/sh\ntouch "$0.ran"\n')
    (tmp_path / "vi").chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{tmp_path / 'none'}"}
    for environ in ({"VISUAL": "./vi"}, {"EDITOR": f"{tmp_path}/vi -w"}, {"EDITOR": "vi", **path}, path):
        with (
            patch.dict(os.environ, environ, clear=True),
            pytest.raises(NexusError, match=r"from the project|no editor was found") as caught,
        ):
            asyncio.run(edit_text("x"))
        assert "\n" not in caught.value.line
    assert not (tmp_path / "vi.ran").exists()


def editor(environ: dict[str, str]) -> list[str]:
    with patch.dict(os.environ, environ, clear=True):
        return find_editor()


def test_visual_comes_before_editor_and_both_may_have_arguments() -> None:
    assert editor({"VISUAL": "code --wait 'a b'", "EDITOR": "ed"}) == ["code", "--wait", "a b"]
    assert editor({"VISUAL": "  ", "EDITOR": "ed -s"}) == ["ed", "-s"]


def test_without_a_named_editor_one_that_is_there_is_taken(tmp_path: Path) -> None:
    nano = tmp_path / "nano"
    nano.write_text("#!/bin/sh\n")
    nano.chmod(0o755)
    assert editor({"PATH": str(tmp_path)}) == [str(nano)]
    with pytest.raises(NexusError, match="no editor was found") as caught:
        editor({"PATH": str(tmp_path / "empty")})
    assert caught.value.kind == "usage" and "EDITOR" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "why"),
    sample(
        [
            ("exit 3", "exit status 3"),
            ('rm "$2"', "the file was removed"),
            ('printf "\\377\\376x" > "$2"', "is not UTF-8"),
            (': > "$2"', "the file is empty"),
            ('rm "$2"; mkdir "$2"', "cannot be read"),
            ('rm "$2"; mkfifo "$2"', "cannot be read"),
            ("kill -9 $$", "SIGKILL"),
            (
                f"'{sys.executable}' -c 'import sys; open(sys.argv[1], \"wb\").truncate(65 << 20)' \"$2\"",
                "more than 64 MiB",
            ),
        ],
        3,
    ),
)
def test_an_editor_that_spoils_it_is_told_in_one_line(tmp_path: Path, code: str, why: str) -> None:
    with pytest.raises(NexusError, match=why) as caught:
        edited("text", script(tmp_path, code))
    assert caught.value.kind == "usage" and "\n" not in caught.value.line


@pytest.mark.parametrize("command", ["/nowhere/editor", "'unbalanced"])
def test_an_editor_that_is_missing_or_misspelt_is_told(command: str) -> None:
    with pytest.raises(NexusError) as caught:
        edited("text", command)
    assert caught.value.kind == "usage" and caught.value.hint


def test_an_unchanged_or_empty_text_is_no_failure(tmp_path: Path) -> None:
    assert edited("same\n", script(tmp_path, "true")) == "same"
    assert edited("", script(tmp_path, "true")) == ""


def test_a_lone_surrogate_reaches_the_editor_as_a_replacement(tmp_path: Path) -> None:
    assert edited("a\ud800", script(tmp_path, "true")) == "a\ufffd"


async def test_a_cancelled_edit_ends_the_editor_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", script(tmp_path, 'echo $$ > "$0.pid"; exec sleep 60'))
    monkeypatch.delenv("VISUAL", raising=False)

    task = asyncio.create_task(edit_text("x"))
    pid = Path(f"{tmp_path}/an editor.pid")
    for _ in range(6000):
        if pid.exists() and pid.read_text():
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_an_interrupt_is_the_editors_and_afterwards_ours_again(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert edited("x", script(tmp_path, f'kill -INT {os.getpid()}; echo y > "$2"')) == "y"
    assert signal.getsignal(signal.SIGINT) is before
