"""The files of git's settings are read as git reads them, whatever form they have: git itself is the measure."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import need
from search import sample

from nexus_cli.config.git_configuration import personal_files, personal_folder, read_configuration

FORMS = {
    "comments": b'# [core]\n[core] ; x\n\tpath = a # b\n\tpath = a;b\n\tpath = "a # b" # c\n',
    "a comment goes on in no next line": b"[include] # x \\\npath = a\n; \\\npath = b\n",
    "continued": b'[include]\npath = \\\n  a\\\nb \\\r\n\nhooksPath = "c\\\n d"\n',
    "escapes": b'[core]\npath = a\\\\b\\"c\\td\npath = \\\\\\\n\\\\\npath = " x "y" \\n"\n',
    "empty parts": b'[core]\npath = "" a "" \npath = ""\npath = " "" a"\npath = a\\\n  "" # b\n',
    "a NUL": b"[core]\npath = a\0b\npath = \0\n",
    "a NUL in a subsection": b'[core "hooksPath\0x"]\nbare = a\n[remote "o.vcs\0"] url = b\n',
    "sections": b'[a]path=1\n[b "C"] path = 2\n[b.C] path = 3\n[a][d "]="] path = 4\n[e\t "f"]\npath=5',
    "a key without a value": b"[core]\nbare\npath = a\n[core] bare\npath = b",
    "line ends and a mark": b"\xef\xbb\xbf[core]\r\n\tpath = a b\t\r\n\r\npath =\r\nPATH-2 = \xff\r\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_settings_are_read_as_git_reads_them(tmp_path: Path, form: str) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git")
    (tmp_path / "config").write_bytes(FORMS[form])
    words = [git, "config", "--file", str(tmp_path / "config"), "--null", "--list"]
    listed = subprocess.run(words, check=True, capture_output=True).stdout.split(b"\0")
    rows = [row.decode("utf-8", "surrogateescape").partition("\n") for row in listed if row]
    assert rows and [*read_configuration(FORMS[form])] == [(name.lower(), value) for name, _, value in rows]


PARTS = [
    b"[a.B]",
    b'[d "X"]',
    b"[]",
    b"\\d",
    b"[",
    b"]",
    b"\n",
    b"\r\n",
    b" ",
    b"\\",
    b'"',
    b"\\\n",
    b"=",
    b"key",
    b"B-",
    b"#",
    b"\0",
]


@pytest.mark.matrix
@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=16).map(b"".join))
def test_whatever_git_reads_is_read(text: bytes) -> None:
    need("git")
    data, words = b"[core]" + text, ["git", "config", "--file", "-", "--null", "--list"]
    listed = subprocess.run(words, input=data, check=False, capture_output=True)
    rows = [row.decode("utf-8", "surrogateescape").partition("\n") for row in listed.stdout.split(b"\0") if row]
    if listed.returncode == 0:
        assert [*read_configuration(data)] == [(name.lower(), value) for name, _, value in rows]
    else:
        assert ("", "") in read_configuration(data)


@pytest.mark.parametrize(
    "line",
    [b"key words", b"key # x", b'key = "a', b"key = a\\d", b"[a_b]", b'[a\f"b"]', b"[]", b'[a "b\\\n"]', b"\v", b"1"],
)
def test_a_line_that_git_refuses_is_told(line: bytes) -> None:
    assert ("", "") in read_configuration(b"[core]\nbare\n" + line + b"\n")


@pytest.mark.parametrize(
    "part", sample([b"a=b\\\n", b'a="\\"', b'[a "', b"[a]", b"a ", b"\\", b'a= b"', b"=", b"a\n"], 4)
)
def test_a_file_of_any_bytes_is_read_in_one_pass(part: bytes) -> None:
    assert len([*read_configuration(part * 200_000)]) <= 400_000, "several passes would take minutes"


def test_the_name_of_a_setting_repeats_little_of_a_long_section() -> None:
    """1 MiB of one section and its keys would be 100 GB of names."""
    text = b'[remote "%b.vcs\0x"]\nurl = a\n[core "%b"]\npath = b' % (b"x" * 2_000, b"y" * 2_000)
    (first, _), (second, value) = read_configuration(text)
    assert first.startswith("remote.x") and first.endswith("x.vcs") and len(first) < 1_100
    assert second.startswith("core.y") and second.endswith("y.path") and len(second) < 1_100 and value == "b"


def test_the_files_of_the_person_are_those_that_the_variables_name() -> None:
    both = [Path("/h/.config/git/config"), Path("/h/.gitconfig")]
    assert personal_files({"HOME": "/h"}) == both
    assert personal_files({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == [Path("/x/git/config"), both[1]]
    assert personal_files({"HOME": "/h", "GIT_CONFIG_GLOBAL": "/g"}) == [Path("/g")]
    for nothing in (
        {},
        {"HOME": "h"},
        {"HOME": "/h", "GIT_CONFIG_GLOBAL": ""},
        {"HOME": "/h", "GIT_CONFIG_GLOBAL": "g"},
    ):
        assert personal_files(nothing) == []
    assert personal_folder({"HOME": "/h", "XDG_CONFIG_HOME": ""}) == Path("/h/.config/git")
