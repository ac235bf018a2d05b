"""Reading text files: encodings, what is no file, bounds."""

from __future__ import annotations

import codecs
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.config.text_file import FileText, decode, read_text
from nexus_cli.core.errors import NexusError

GERMAN = "# Regeln\nImmer Größe prüfen, dann Tests ausführen.\n"
RUSSIAN = "Правила проекта: всегда запускать тесты перед ответом.\n" * 2
POLISH = "Zażółć gęślą jaźń. Proszę zawsze uruchamiać testy i sprawdzać błędy."
JAPANESE = "日本語の指示です。必ずテストを実行する。\n" * 4


def written(folder: Path, data: bytes) -> Path:
    path = folder / "NEXUS.md"
    path.write_bytes(data)
    return path


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\ufeff")))
def test_every_text_comes_back_from_utf8(text: str) -> None:
    assert decode(text.encode(), "f") == FileText(text, "utf-8")


@given(
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\ufeff")),
    st.sampled_from(
        [
            (codecs.BOM_UTF8, "utf-8"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF32_BE, "utf-32-be"),
        ]
    ),
)
def test_a_byte_order_mark_names_the_encoding_and_is_no_content(text: str, mark: tuple[bytes, str]) -> None:
    assert decode(mark[0] + text.encode(mark[1]), "f") == FileText(text, mark[1])


@given(st.binary(max_size=400))
def test_any_bytes_are_text_without_nul_or_a_named_error(data: bytes) -> None:
    try:
        found = decode(data, "file.md")
    except NexusError as error:
        assert (error.kind, error.what) == ("config", "file.md")
    else:
        assert "\0" not in found.text
        found.text.encode()


@pytest.mark.parametrize("text", ["é", "café", "naïve déjà vu", "ÆØÅ. Kør altid prøverne", GERMAN, GERMAN * 50])
def test_latin1_files_are_decoded_and_said_to_be_so(tmp_path: Path, text: str) -> None:
    found = read_text(written(tmp_path, text.encode("latin-1")))
    assert found is not None
    assert found.text == text
    assert found.notice.endswith("NEXUS.md: is not UTF-8; decoded as cp1252")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(RUSSIAN, "cp1251"), (RUSSIAN, "koi8_r"), (POLISH, "cp1250"), (JAPANESE, "cp932"), (JAPANESE, "euc_jp")],
)
def test_other_encodings_are_guessed_from_the_language(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), "f").text == text


def test_bytes_that_fit_no_encoding_are_shown_as_lost_and_counted() -> None:
    notice = "f: 2 bytes are not UTF-8 and are shown as \ufffd"
    assert decode(b"caf\xe9 \x81", "f") == FileText("caf\ufffd \ufffd", "utf-8", notice)


def test_one_odd_byte_deep_in_a_long_file_does_not_hide_the_rest() -> None:
    text = "plain line\n" * 20_000 + "Größe" + "\nplain line" * 20_000
    assert decode(text.encode("latin-1"), "f").text == text


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\0\0", b"text\0more", codecs.BOM_UTF8 + b"a\0b", codecs.BOM_UTF16_LE + b"a\0\0\0"]
)
def test_a_nul_is_binary_and_the_error_names_the_file_and_the_place(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, data)
    with pytest.raises(NexusError, match=r"is not a text file \(a NUL at") as caught:
        read_text(path)
    assert caught.value.what == str(path)
    assert caught.value.exit_status == 2
    assert caught.value.hint


def test_bytes_full_of_control_characters_are_binary_without_a_nul() -> None:
    with pytest.raises(NexusError, match="control characters"):
        decode(bytes(range(1, 256)) * 10, "f")


def test_a_torn_utf16_file_is_read_with_replacements_and_a_notice() -> None:
    found = decode(codecs.BOM_UTF16_LE + "abc".encode("utf-16-le") + b"x", "f")
    assert found.text == "abc\ufffd"
    assert "not valid utf-16-le" in found.notice


def test_a_missing_file_a_folder_a_fifo_a_socket_and_a_device_count_as_absent(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "to_fifo").symlink_to(tmp_path / "fifo")
    (tmp_path / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        for name in ("nothing", "folder", "fifo", "dangling", "to_fifo", "socket", "file/below"):
            assert read_text(tmp_path / name) is None, name
    assert read_text(Path("/dev/zero")) is None
    assert read_text(Path("/dev/full")) is None


def test_a_link_to_a_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(written(tmp_path, b"rules"))
    assert read_text(tmp_path / "link") == FileText("rules", "utf-8")


def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    loop = tmp_path / "NEXUS.md"
    loop.symlink_to(loop)
    with pytest.raises(NexusError, match="cannot be read") as caught:
        read_text(loop)
    assert caught.value.what == str(loop)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_a_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path, b"x")
    path.chmod(0)
    with pytest.raises(NexusError, match="Permission denied"):
        read_text(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_over_the_limit_is_cut_at_a_character_and_says_so(tmp_path: Path, encoding: str) -> None:
    text = "ä𐍈€" * 100
    path = written(tmp_path, text.encode(encoding))
    for limit in range(60, 76):
        found = read_text(path, limit)
        assert found is not None
        assert found.text and text.startswith(found.text)
        assert found.notice == f"{path}: only the first {limit} bytes were read"


def test_a_file_of_fifty_megabytes_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, b"0123456789abcde\n" * (50 * 65536))
    found = read_text(path)
    assert found is not None
    assert (len(found.text), found.notice) == (50 * 1024 * 1024, "")
