"""The exit statuses of a pipe stand in the result, and nothing else of the command is different for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.tools.builtin import bash
from nexus_cli.tools.pipe_statuses import describe_failed_part
from nexus_cli.tools.process import find_shell

pytestmark = pytest.mark.skipif(find_shell(Path.cwd()).rpartition("/")[2] != "bash", reason="no bash")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("command", "end", "pipe"),
    [
        ("sh -c 'echo 1 failed; exit 3' 2>&1 | tail -5", "1 failed\n[exit status 0; pipe: 3 0]", (3, 0)),
        ("false | true | true", "[exit status 0; pipe: 1 0 0]", (1, 0, 0)),
        ("set -o pipefail; false | true", "[exit status 1; pipe: 1 0]", (1, 0)),
        ("false | true; exit 4", "[exit status 4; pipe: 1 0]", (1, 0)),
        ("yes | head -1", "y\n[exit status 0; pipe: 141 0]", (141, 0)),
        ("true | false", "[exit status 1]", ()),
        ("true | true", "[exit status 0]", ()),
        ("false || true", "[exit status 0]", ()),
        ("echo 'a|b'", "a|b\n[exit status 0]", ()),
        ("IFS=; false | cat", "[exit status 0; pipe: 1 0]", (1, 0)),
        ("printf() { echo hi; }; false | true", "[exit status 0; pipe: 1 0]", (1, 0)),
        ("trap 'echo mine' EXIT; false | true", "mine\n[exit status 0]", ()),
        ("exec 100>&-; false | true", "[exit status 0]", ()),
        ("env | grep ^BASH_ENV; echo $BASH_ENV | cat", "\n[exit status 0]", ()),
    ],
)
def test_a_result_has_the_exit_statuses_of_its_pipe(desk: Any, command: str, end: str, pipe: tuple[int, ...]) -> None:
    result = desk.run("bash", command=command)
    assert (result.output, result.pipe) == (end, pipe)


@pytest.mark.parametrize(
    ("command", "pipe", "said"),
    [
        ("pytest -q 2>&1 | tail -5", (1, 0), "pytest exited 1"),
        ("cd /a && X=1 ./t.sh 'a|b' |& tail\n", (2, 0), "t.sh exited 2"),
        ("make;\nmake test |\n tail", (2, 0), "make exited 2"),
        ("cat f | grep -v '#' | wc -l", (0, 1, 0), "grep exited 1"),
        ("yes | head -1", (141, 0), ""),
        ("true | false", (0, 1), ""),
        ("(pytest; ruff) | tail", (1, 0), "part 1 of its pipe exited 1"),
        ("for x in a; do pytest; done | tail", (1, 0), "part 1 of its pipe exited 1"),
        ("grep '|' f | tail", (1, 0), "part 1 of its pipe exited 1"),
        ("echo $(a | b) | tail", (1, 0), "part 1 of its pipe exited 1"),
        ("pytest | tail # it's", (1, 0), "pytest exited 1"),
        ("pytest \\\n  -q tests \\\n  2>&1 | tail -5", (1, 0), "pytest exited 1"),
        ("2>/dev/null pytest | tail", (1, 0), "part 1 of its pipe exited 1"),
        ("make | tail || cat log | tail", (2, 0), "part 1 of its pipe exited 2"),
    ],
)
def test_a_part_that_failed_is_named(command: str, pipe: tuple[int, ...], said: str) -> None:
    assert describe_failed_part(command, pipe) == said


@pytest.mark.matrix
def test_a_failed_part_is_the_warning_of_a_command_that_ended_well(desk: Any) -> None:
    assert desk.run("bash", command="grep nothing /dev/null | cat").warning == "", "no match is an answer"
    assert desk.run("bash", command="grep no /dev/null | sh -c 'exit 3' | cat").warning == "sh exited 3"
    assert desk.run("bash", command="grep x /nowhere | cat").warning == "grep exited 2"
    assert desk.run("bash", command="sh -c 'exit 3' | cat").warning == "sh exited 3"
    assert desk.run("bash", command="set -o pipefail; sh -c 'exit 3' | cat").warning == ""


def test_a_command_that_traces_itself_does_not_show_the_trap(desk: Any) -> None:
    *traced, last = desk.run("bash", command="set -x; false | true").output.splitlines()
    assert (sorted(traced), last) == (["+ false", "+ true"], "[exit status 0; pipe: 1 0]")


@pytest.mark.parametrize(
    "command",
    ["(echo a; exit 3) | cat", "if then | (", "echo $0 $# | cat", "echo x | (exit 9)", "x=$(false | true); echo $?"],
)
def test_what_a_command_prints_and_its_status_are_those_of_bash_alone(desk: Any, command: str) -> None:
    argv = [find_shell(Path.cwd()), "-c", command]
    alone = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=desk.project)
    result = desk.run("bash", command=command)
    assert result.output.rpartition("[exit status")[0] == alone.stdout + alone.stderr
    assert result.status == alone.returncode


def test_a_shell_that_is_not_bash_and_a_person_who_uses_the_variable_are_left_alone(
    desk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "env.sh").write_text("MINE=1\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env.sh"))
    assert desk.run("bash", command="false | echo $MINE").output == "1\n[exit status 0]"
    monkeypatch.delenv("BASH_ENV")
    monkeypatch.setattr(bash, "find_shell", lambda cwd: shutil.which("sh"))
    assert desk.run("bash", command="false | echo a").output == "a\n[exit status 0]"
