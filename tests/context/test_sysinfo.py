"""The environment section: operating systems, terminals, modes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.sysinfo import Host, get_system_info, operating_system, terminal, working_folder
from nexus_cli.core.elide import one_line

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nID=debian\n'
MAC = "<plist><dict><key>ProductName</key><string>macOS</string><key>ProductVersion</key>\n\t<string>14.2.1</string>"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (Host("Linux", "6.1.0-18-amd64", DEBIAN), "Linux (Debian GNU/Linux 12 (bookworm))"),
        (Host("Linux", "6.1.0", "NAME='Arch Linux'\nID=arch"), "Linux (Arch Linux)"),
        (Host("Linux", "6.1.0", "ID=odd"), "Linux"),
        (Host("Linux", "5.15.90.1-microsoft-standard-WSL2", DEBIAN), "Linux (WSL2 on Windows)"),
        (Host("Linux", "6.6.1-custom Linux version (root@Microsoft.com) WSL2", DEBIAN), "Linux (WSL2 on Windows)"),
        (Host("Linux", "4.4.0-19041-Microsoft", DEBIAN), "Linux (WSL on Windows)"),
        (Host("Darwin", "23.2.0", MAC), "macOS 14.2.1"),
        (Host("Darwin", "23.2.0", ""), "macOS (Darwin 23.2.0)"),
        (Host("FreeBSD", "14.0-RELEASE"), "FreeBSD 14.0-RELEASE"),
    ],
)
def test_operating_systems_are_told_apart(host: Host, said: str) -> None:
    assert operating_system(host) == said


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TERM_PROGRAM": "vscode", "TERM": "xterm-256color"}, "vscode (xterm-256color)"),
        ({"TERM": "xterm"}, "xterm"),
        ({"TERM_PROGRAM": "Apple_Terminal"}, "Apple_Terminal"),
        ({"WT_SESSION": "1", "TERM": "xterm"}, "Windows Terminal (xterm)"),
        ({}, "unknown"),
    ],
)
def test_the_terminal_is_its_program_and_its_kind(environ: dict[str, str], said: str) -> None:
    assert terminal(environ) == said


def test_an_interactive_session_has_four_lines_with_its_terminal(tmp_path: Path) -> None:
    host = Host("Linux", "6.1", DEBIAN, {"TERM_PROGRAM": "vscode", "TERM": "xterm-256color"})
    assert get_system_info(cwd=tmp_path, host=host).splitlines() == [
        f"Working directory: {tmp_path}",
        "Operating system: Linux (Debian GNU/Linux 12 (bookworm))",
        "Terminal: vscode (xterm-256color)",
        "Mode: Interactive REPL",
    ]


def test_a_server_has_no_terminal(tmp_path: Path) -> None:
    lines = get_system_info(False, tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["Working directory", "Operating system", "Mode"]
    assert lines[-1] == "Mode: HTTP JSON-RPC Server"


def test_this_machine_can_be_described_and_has_no_date() -> None:
    text = get_system_info()
    assert f"Working directory: {os.getcwd()}" in text
    assert Host.here().system == os.uname().sysname
    assert "date" not in text.lower()


def test_a_folder_that_has_vanished_is_said_to_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    assert working_folder() is None
    assert "no longer exists" in get_system_info()


@given(st.text(st.characters()))
def test_any_name_becomes_one_line_that_can_be_stored(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert not any(ord(char) < 32 for char in line)
    line.encode()


def test_values_of_megabytes_are_bounded() -> None:
    host = Host("Linux", "6.1", "PRETTY_NAME=" + "x" * 10**6, {"TERM": "y" * 10**6})
    assert len(get_system_info(host=host)) < 4000
