"""What is asked: words, stdin, files; how their bytes become text, and what is counted instead of kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from images import png
from search import sample

from nexus_cli.cli.run import ask
from nexus_cli.core.errors import NexusError
from nexus_cli.ui.input import piped as reading
from nexus_cli.ui.input.attached_files import read_attachment
from nexus_cli.ui.input.piped import Reader, decode

Run = Callable[..., subprocess.CompletedProcess[bytes]]


PNG = png()


def test_words_are_joined_by_a_space(engine: Run) -> None:
    assert engine("echo", "ask", "fix", "the test").stdout == b"person|0||fix the test\n"


def test_piped_text_is_added_to_a_prompt_as_a_block(engine: Run) -> None:
    done = engine("echo", "ask", "review this", stdin=b"a\nb\n")
    assert done.stdout == b"person|0||review this\n\n<stdin>\na\nb\n</stdin>\n"


def test_a_file_that_the_prompt_mentions_is_not_attached_and_the_way_to_do_it_is_named(
    engine: Run, tmp_path: Path
) -> None:
    (tmp_path / "a b.py").write_text("x")
    (tmp_path / "a.py").write_text("x")
    done = engine("echo", "ask", 'in @a.py, @"a b.py", @nobody?', cwd=tmp_path)
    assert done.stdout == b'person|0||in @a.py, @"a b.py", @nobody?\n'
    first, second, _ = done.stderr.decode().splitlines()
    assert first == "nexus: @a.py is sent as text; to attach the file, add -f a.py" and second.endswith("-f 'a b.py'")


@pytest.mark.matrix
def test_a_stdin_that_sends_nothing_is_reported_and_ends_with_the_timeout(engine: Run) -> None:
    reader, writer = os.pipe()
    done = engine("echo", "ask", "--timeout", "0.2", "hi", preexec_fn=lambda: os.dup2(reader, 0))
    os.close(reader)
    os.close(writer)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 3 and "waiting for input on stdin" in lines[0] and lines[0].endswith("< /dev/null")
    assert "limit timeout reached: stdin was open for 0.2 s" in lines[1]


@pytest.mark.matrix
@pytest.mark.parametrize("words", sample([["hi"], [], ["-"]], 3))
def test_a_stdin_that_begins_and_does_not_end_ends_with_the_timeout(engine: Run, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    done = engine("echo", "ask", "--timeout", "0.2", *words, preexec_fn=lambda: os.dup2(reader, 0))
    os.close(reader)
    os.close(writer)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"stdin was open for 0.2 s without ending; no request was sent. Raise --timeout" in done.stderr


def test_late_input_beside_a_prompt_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(reading, "SILENT", 0.02)
    monkeypatch.setattr(ask, "Reader", lambda *values: Reader(reader, *values[1:]))
    prompt = ask.PromptReader(["hi"], [], resumes=False, is_stream=False, timeout=None)
    writing = os.fdopen(writer, "wb", buffering=0)

    def send() -> None:
        with writing:
            writing.write(b"late")

    threading.Timer(0.2, send).start()
    prompt.report_silence()
    assert prompt.read()[0].text == "hi\n\n<stdin>\nlate\n</stdin>"
    os.close(reader)
    assert capfd.readouterr().err.count("waiting for input on stdin") == 1


@pytest.mark.parametrize("words", [["hi"], []])
def test_an_input_that_begins_and_pauses_is_reported_once(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    monkeypatch.setattr(reading, "PAUSED", 0.02)
    monkeypatch.setattr(ask, "Reader", lambda *values: Reader(reader, *values[1:]))
    prompt = ask.PromptReader(words, [], resumes=False, is_stream=False, timeout=None)
    threading.Timer(0.3, os.close, (writer,)).start()
    prompt.check()
    prompt.report_silence()
    prompt.read()
    os.close(reader)
    told = capfd.readouterr().err
    assert told.count("waiting for the end of stdin") == 1
    assert ("run without input" in told) == bool(words), "without it there is no prompt"


@pytest.mark.skipif(sys.platform != "linux", reason="opening the pipe waits there")
def test_a_named_pipe_without_a_writer_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    monkeypatch.setattr(reading, "SILENT", 0.02)
    threading.Timer(0.3, pipe.write_text, ("late",)).start()
    prompt = ask.PromptReader(["hi"], [str(pipe)], resumes=False, is_stream=True, timeout=None)
    assert "late" in prompt.read()[0].text
    assert capfd.readouterr().err == f"nexus: waiting for input on {pipe}\n"


@pytest.mark.parametrize("has_writer", [False, True])
def test_a_named_pipe_that_does_not_end_ends_with_the_timeout(engine: Run, tmp_path: Path, has_writer: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR) if has_writer else -1
    if has_writer:
        os.write(held, b"x")
    done = engine("echo", "ask", "--timeout", "0.2", "-f", "pipe", "hi", cwd=tmp_path)
    if has_writer:
        os.close(held)
    assert (done.returncode, done.stdout) == (3, b"") and b"limit timeout reached: pipe was open" in done.stderr


@pytest.mark.parametrize("words", [[], ["-"]])
def test_without_words_or_with_a_dash_stdin_is_the_prompt(engine: Run, words: list[str]) -> None:
    assert engine("echo", "ask", *words, stdin=b"hello\n").stdout == b"stdin|0||hello\n"


@pytest.mark.matrix
def test_empty_or_closed_stdin_adds_no_block(engine: Run) -> None:
    assert engine("echo", "ask", "hi", stdin=b"").stdout == b"person|0||hi\n"
    assert engine("echo", "ask", "hi", preexec_fn=lambda: os.close(0)).stdout == b"person|0||hi\n"


def test_a_resumed_session_needs_no_prompt(engine: Run) -> None:
    done = engine("echo", "ask", "-r", "01X")
    assert (done.returncode, done.stdout) == (0, b"person|0||\n")


def test_a_folder_to_read_from_is_told(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(NexusError, match="it is a folder"):
        Reader(folder, "stdin").read()
    os.close(folder)


def test_binary_stdin_is_refused_with_a_way_to_send_it(engine: Run) -> None:
    done = engine("echo", "ask", "what is this", stdin=b"\x7fELF\0\0\xff\xfe\x80" * 100)
    assert done.returncode == 2 and b"stdin is binary" in done.stderr and b"base64" in done.stderr


@pytest.mark.matrix
def test_text_that_is_not_utf_8_is_read_and_told(engine: Run) -> None:
    done = engine("echo", "ask", "hi", stdin="Größe und Übermaß, schöne Grüße\n".encode("latin-1") * 20)
    assert done.returncode == 0 and "Größe und Übermaß" in done.stdout.decode()
    assert b"not UTF-8" in done.stderr


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_no_content(encoding: str) -> None:
    assert decode("hé".encode(encoding), "x")[0] == "hé"


def test_nul_characters_in_text_are_shown_and_told() -> None:
    assert decode(b"a\0b\0", "stdin") == ("a␀b␀", "stdin: NUL characters are shown as ␀")


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n", b"%PDF-1.7\n"])
def test_an_image_or_a_pdf_on_stdin_is_refused_with_the_way_to_attach_it(start: bytes) -> None:
    with pytest.raises(NexusError) as refused:
        decode(start + bytes(range(256)) * 9, "stdin")
    assert "with -f" in refused.value.hint


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")))
def test_utf_8_is_read_as_it_is(text: str) -> None:
    assert decode(text.encode(), "x") == (text, "")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), min_size=1), st.data())
def test_a_cut_inside_a_character_loses_only_that_character(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    part = whole[: data.draw(st.integers(0, len(whole)))]
    read, notice = decode(part, "x", cut=True)
    assert text.startswith(read) and notice == "" and len(part) - len(read.encode()) < 4


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_a_clear_refusal(data: bytes) -> None:
    try:
        read, _ = decode(data, "x")
    except NexusError as error:
        assert error.kind == "usage" and b"\0" in data
    else:
        assert isinstance(read, str)


def _piped(data: bytes) -> Reader:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        try:
            while data:
                data = data[os.write(writer, data) :]
        except BrokenPipeError:
            pass
        finally:
            os._exit(0)
    os.close(writer)
    return Reader(reader, "stdin")


def test_what_is_beyond_the_limit_is_counted_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_INPUT", 1000)
    monkeypatch.setattr(reading, "COUNTED", 10**6)
    read = _piped(b"x" * 5000).read()
    assert (len(read.text), read.uncounted) == (1000, 4000)
    assert "kept the first 1,000 bytes and discarded 4,000 bytes" in read.notice


def test_an_endless_input_ends_somewhere_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_INPUT", 1000)
    monkeypatch.setattr(reading, "COUNTED", 3_000_000)
    source = os.open("/dev/zero", os.O_RDONLY)
    read = Reader(source, "stdin").read()
    os.close(source)
    assert len(read.text) == 1000 and "more than 3,000,000 bytes" in read.notice


def test_looking_whether_stdin_is_empty_loses_nothing() -> None:
    reader = _piped(b"\n \n  text\n")
    assert not reader.empty and reader.read().text == "\n \n  text\n"
    assert _piped(b" \n\n").empty


def test_a_file_is_a_block_with_its_path(engine: Run, tmp_path: Path) -> None:
    (tmp_path / 'a "b".txt').write_text("content\n")
    done = engine("echo", "ask", "-f", 'a "b".txt', "read it")
    assert done.stdout == b'person|0||read it\n\n<file path="a &quot;b&quot;.txt">\ncontent\n</file>\n'


def test_an_image_is_attached_as_it_is(engine: Run, tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(PNG)
    assert engine("echo", "ask", "-f", "x.dat", "see").stdout == f"person|0|image/png {len(PNG)} x.dat|see\n".encode()


def test_utf_8_with_a_stray_byte_is_piped_in_as_utf_8() -> None:
    text = "+ménage à trois, 日本語, Größe\n" * 20
    read, notice = decode(text.encode() + b"\x81\xa1\n", "stdin")
    assert read == text + "\ufffd\ufffd\n" and notice.startswith("stdin: 2 bytes are not UTF-8")


def test_an_image_beyond_the_hard_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    with open(path, "wb") as file:
        file.write(PNG)
        file.truncate(reading.MAX_INPUT + 1)
    with pytest.raises(NexusError, match="it has 67,108,865 bytes") as caught:
        read_attachment(str(path), "--file huge.png")
    assert caught.value.kind == "usage"


@pytest.mark.parametrize("name", ["missing", "folder", "binary", "/dev/zero"])
def test_what_cannot_be_attached_is_wrong_usage(engine: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\0\xff\x80" * 50)
    done = engine("echo", "ask", "-f", name, "hi", "--json")
    assert done.returncode == 2 and name.encode() in done.stderr and done.stderr.count(b"\n") == 1
    assert json.loads(done.stdout)["error"]["kind"] == "usage"


def test_utf_16_without_a_mark_is_text() -> None:
    assert decode("plain words\n".encode("utf-16-be"), "x") == (
        "plain words\n",
        "x: is not UTF-8; decoded as utf-16-be",
    )
