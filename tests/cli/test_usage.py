"""Wrong usage: one clear line, exit 2, never a box or a traceback."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from search import sample

from nexus_cli.cli import start_table
from nexus_cli.cli.app import COMMANDS, build, extract_prompt, list_verbs
from nexus_cli.cli.completion import complete_line
from nexus_cli.cli.process import SIGNALS
from nexus_cli.cli.start_table import HELP, read_block
from nexus_cli.core.errors import EXIT_STATUS

Run = Callable[..., subprocess.CompletedProcess[bytes]]


WRONG = [
    (["fix the tests " * 20], b"no such command 'fix the tests", b'To send a prompt: nexus ask "..."'),
    (["space", "open", "team\udcff"], b"team\xef\xbf\xbd: is not valid UTF-8", b"Check the name"),
    (["ledger", "copy", "x" * 5000, "copy"], b"xxx...: this file name is too long", b"Check the name"),
]
"""Command lines that no line of the recorded mistakes can hold."""
COMMANDS_WITH_A_NAME = ["", "timeline --run", "space create", "skill use", "schedule add hi --in 1h --name"]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("arguments", "what", "hint"), sample(WRONG, 3), ids=lambda value: " ".join(value) if type(value) is list else ""
)
def test_wrong_usage_is_one_line_and_exit_2(nexus: Run, arguments: list[str], what: bytes, hint: bytes) -> None:
    done = nexus(*arguments, env={"COLUMNS": "80"})
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"nexus: ")
    assert done.stderr.count(b"\n") == 1
    assert what in done.stderr and hint in done.stderr


@pytest.mark.matrix
def test_json_is_given_to_who_asked_ask_for_it_and_to_nobody_else(nexus: Run) -> None:
    for arguments in (["sessions", "show", "ask", "--json"], ["ask", "-f", "--json", "hi"], ["ask", "--", "--json"]):
        done = nexus(*arguments)
        assert (done.returncode, done.stdout) == (2, b"") and done.stderr.count(b"\n") == 1, arguments
    for arguments in (["-m", "ask", "ask", "--json", "-c", "-r", "x"], ["ask", "--json", "--modle"]):
        assert nexus(*arguments).stdout.startswith(b'{"type": "result"'), arguments


@pytest.mark.parametrize("line", sample([(line,) for line in COMMANDS_WITH_A_NAME], 9))
def test_control_characters_in_a_wrong_argument_are_shown_not_sent(nexus: Run, line: str) -> None:
    done = nexus(*line.split(), "x\x1b[31m\ny")
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr and b"[31m" in done.stderr


@pytest.mark.matrix
def test_a_shell_takes_the_aliases_of_the_slash_commands(nexus: Run) -> None:
    for alias, name in {"skills": "skill", "settings": "config", "cost": "usage", "worktrees": "worktree"}.items():
        done, named = nexus(alias, "--help"), nexus(name, "--help")
        assert done.returncode == 0
        assert done.stdout.decode() == named.stdout.decode().replace(f"nexus {name}", f"nexus {alias}")


LISTED = [(name, verbs[0]) for name in COMMANDS if (verbs := list_verbs(name))]
"""Nouns without a command of their own, and the verb that they stand for."""


def test_json_may_stand_before_the_verb(nexus: Run) -> None:
    for name, verb in (("worktree", "list"), ("config", "path"), ("runs", "list")):
        before, behind = nexus(name, "--json", verb), nexus(name, verb, "--json")
        assert before.returncode == 0 and before.stdout == behind.stdout, (name, before.stderr)


@pytest.mark.parametrize("name", sample(COMMANDS, 4))
def test_every_command_of_the_table_has_its_module_and_its_help(nexus: Run, name: str) -> None:
    done = nexus(name, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"Usage: nexus " + name.encode()) and done.stderr == b""


def test_the_help_names_every_command_and_shared_option(nexus: Run) -> None:
    text = nexus("--help", "all").stdout.decode()
    for word in (*COMMANDS, "--model", "--effort", "--continue", "--resume", "--cd", "--recipe", "--no-tools"):
        assert word in text
    for word in ("--allow", "--no-save", "--verbose", "--quiet", "--version", "--install-completion"):
        assert word in text


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_is_one_screen_and_all_it_names_exists(nexus: Run, option: str) -> None:
    done = nexus(option)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{read_block(HELP)}\n".encode(), b"")
    text = done.stdout.decode()
    assert len(text.splitlines()) <= 24 - 2 and max(map(len, text.splitlines())) <= 60, "with two prompts a screen"
    named = [
        word for line in re.findall(r"^  nexus ([a-z, ]+?)(?:  | [A-Z\"]|$)", text, re.M) for word in line.split(", ")
    ]
    assert len(named) >= 12 and not set(named) - set(COMMANDS), (
        "`FIRST` of cli/app.py names a command that is not there"
    )
    known = {name for param in build(completion=False).params for name in (*param.opts, "--help")}
    assert not set(re.findall(r"(?<!\S)--?[a-z]+", text)) - known, (
        "`FIRST` of cli/app.py names an option that is not there"
    )
    assert "nexus --help all" in text
    assert "resume a session; no ID: list\n" in text and "work in a git worktree\n" in text


def test_the_whole_help_fits_a_narrow_terminal(nexus: Run) -> None:
    lines = nexus("--help", "all", env={"COLUMNS": "60"}).stdout.decode().splitlines()
    assert max(map(len, lines)) < 60 and "Options:" in lines


def test_the_help_of_ask_names_every_exit_status_that_it_has(nexus: Run) -> None:
    said = nexus("ask", "--help").stdout.decode().partition("Exit status: ")[2].partition("\n\n")[0]
    statuses = {0, *EXIT_STATUS.values(), *(128 + number for number in SIGNALS)}
    assert {int(word) for word in re.findall(r"\d+", said)} == statuses


def test_the_shell_completes_commands(nexus: Run) -> None:
    words = {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": "nexus ses", "COMP_CWORD": "1"}
    assert nexus(env=words).stdout.split() == [b"sessions"]
    values = {
        "memory add p": b"project",
        "ask --allow al": b"all",
        "config get ui.th": b"ui.theme",
        "drops show x": b"",
    }
    for line, value in values.items():
        words = {**words, "COMP_WORDS": f"nexus {line}", "COMP_CWORD": "3"}
        assert nexus(env=words).stdout.strip() == value
    assert nexus(env={**words, "COMP_WORDS": "nexus goal done x", "COMP_CWORD": "3"}).stderr == b""
    nothing = nexus(env={**words, "COMP_WORDS": "nexus drops show x", "COMP_CWORD": "3"})
    assert (nothing.stdout.strip(), nothing.stderr) == (b"", b""), "there is no session"
    quoted = "nexus\nask\n'a b'\n--allow\nal"
    lines = {
        "nexus --no-tools --no": b"--no-save\n--no-plugins\n",
        "nexus --allow = al": b"all\n",
        quoted: b"all\n",
        "nexus plan res": b"resume\n",
        "nexus sessions --ru": b"--running\n",
        "nexus sessions list --all --limit 3 --ru": b"--running\n",
        "nexus sessions x ": b"\n",
        "nexus nonsense ": b"\n",
    }
    for line, value in lines.items():
        place = str(len(line.split("\n" if line == quoted else " ")) - 1)
        assert nexus(env={**words, "COMP_WORDS": line, "COMP_CWORD": place}).stdout == value, line
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # else typer looks for a shell among our ancestors
    assert b"_NEXUS_COMPLETE" in nexus("--show-completion", "bash", env=named).stdout


@pytest.mark.parametrize(
    ("shell", "line", "text"),
    sample(
        [
            ("zsh", "nexus key", '_arguments \'*: :(("key":"List provider keys, never their values."))\'\n'),
            ("zsh", "nexus ask --allow=al", "_arguments '*: :((\"all\"))'\n"),
            ("zsh", "nexus nonsense ", "_files\n"),
            ("fish", "nexus key", "key\tList provider keys, never their values.\n"),
            ("fish", "nexus ask --allow  al", "all\n"),
            ("zsh", 'nexus -C "my dir" ask --allow=al', "_arguments '*: :((\"all\"))'\n"),
            ("fish", 'nexus -C "my dir" ses', "sessions\tList, read, search, stop or delete sessions.\n"),
            ("fish", 'nexus ask "a b" --allow al', "all\n"),
            ("fish", r"nexus -C my\ dir key", "key\tList provider keys, never their values.\n"),
            ("fish", "nexus ask 'a b --allow al", "all\n"),
            ("powershell", "nexus key", "key:::List provider keys, never their values.\n"),
            ("powershell", "nexus ask --allow", "ask::: \nedit::: \nauto::: \nall::: \n"),
        ],
        4,
    ),
)
def test_every_shell_gets_its_own_form(nexus: Run, shell: str, line: str, text: str) -> None:
    typed = "" if line.endswith("--allow") else line.split()[-1]
    typed_word = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_WORD_TO_COMPLETE": typed}
    done = nexus(env={"_NEXUS_COMPLETE": f"complete_{shell}", **typed_word})
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, text, b"")
    if shell == "fish":
        asked = {"_NEXUS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "is-args"}
        statuses = [nexus(env={**asked, "_TYPER_COMPLETE_ARGS": typed}).returncode for typed in (line, "nexus zzz ")]
        assert statuses == [0, 1], "files are offered where there is no word"


def test_no_option_is_offered_behind_the_end_of_options(nexus: Run) -> None:
    for line, value in {"nexus ask -- --al": b"\n", "nexus -- ask --al": b"--allow\n"}.items():
        words = {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "3"}
        assert nexus(env=words).stdout == value, line


def test_tab_writes_no_error_into_the_line(nexus: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": "nexus ses", "COMP_CWORD": "x"}
    done = nexus(env=words)
    assert (done.stdout, done.stderr) == (b"", b"")
    monkeypatch.setattr(start_table, "TABLE", str(tmp_path / "table.txt"))
    for name, value in {**words, "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    rows = b"\n[]\ncommand\ncommand\tsessions\t\tList.\n"
    for damaged, answer in {b"\xff\xfe\x00": "\n", rows: "sessions\n"}.items():
        (tmp_path / "table.txt").write_bytes(damaged)
        assert complete_line("bash") == (0, answer)


def test_nexus_alone_wants_a_terminal_to_draw_on() -> None:
    controller, terminal = pty.openpty()
    try:
        command = [sys.executable, "-m", "nexus_cli"]
        done = subprocess.run(command, stdin=terminal, capture_output=True, timeout=120)
    finally:
        os.close(controller)
        os.close(terminal)
    assert done.returncode == 2 and b"no terminal" in done.stderr and done.stdout == b""


@pytest.mark.parametrize(
    ("arguments", "prompt", "others"),
    [
        (["fix the tests"], "fix the tests", []),
        (["-m", "two words", "fix\nthe tests", "-q"], "fix\nthe tests", ["-m", "two words", "-q"]),
        (["-C", "a b", "a b"], "a b", ["-C", "a b"]),
        (["fix the tests", "undo"], "", ["fix the tests", "undo"]),
        (["fix the tests", "--", "undo"], "", ["fix the tests", "--", "undo"]),
        (["ask", "fix the tests"], "", ["ask", "fix the tests"]),
        (["-C", "my folder"], "", ["-C", "my folder"]),
        (["-qC", "my folder"], "", ["-qC", "my folder"]),
        (["-cvm", "two words", "fix the tests"], "fix the tests", ["-cvm", "two words"]),
        (["-mC", "fix the tests"], "fix the tests", ["-mC"]),
        (["sesions"], "", ["sesions"]),
        (["!rm -r build"], "", ["!rm -r build"]),
    ],
)
def test_several_words_in_place_of_a_command_are_a_prompt(
    arguments: list[str], prompt: str, others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    assert extract_prompt(arguments) == (prompt, others)
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 0)
    assert extract_prompt(arguments) == ("", arguments)


def test_piped_into_nexus_alone_it_is_ask(engine: Run) -> None:
    done = engine("echo", "-m", "n", stdin=b"what is this\n")
    assert (done.returncode, done.stdout) == (0, b"stdin|0||what is this\n")


def test_options_before_ask_count_like_those_behind_it(engine: Run) -> None:
    done = engine("said", "--allow", "edit", "-m", "first", "ask", "-m", "second", "hi")
    assert b"allow='edit'" in done.stdout and b"model='second'" in done.stdout


@pytest.mark.matrix
def test_a_vanished_working_folder_is_one_line(tmp_path: Path, nexus: Run) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    for words in (("ask", "hi"), ("context",)):
        done = nexus(*words, cwd=gone, preexec_fn=lambda: os.rmdir(gone))
        assert done.returncode == 2 and b"working folder" in done.stderr and done.stderr.count(b"\n") == 1
        gone.mkdir()


@pytest.mark.matrix
def test_version_and_help_load_none_of_the_heavy_libraries(tmp_path: Path) -> None:
    heavy = {"asyncio", "rich", "prompt_toolkit", "platformdirs", "tiktoken", "litellm", "sqlite3"}
    code = (
        "import sys; sys.argv = ['nexus', *{0}]\n"
        "from nexus_cli.cli import process\n"
        "def end(*given, **named): sys.stderr.write('MODULES ' + ' '.join(sys.modules) + chr(10)); sys.exit()\n"
        "process.exit_process = end\n"
        "from nexus_cli.__main__ import main; main()"
    )
    tab = {"_NEXUS_COMPLETE": "complete_bash", "COMP_WORDS": "nexus runs --", "COMP_CWORD": "2"}
    for arguments, added in ((["--version"], {}), (["--help"], {}), ([], tab), (["ask", "hi"], {})):
        unwanted = heavy | ({"typer", "typing", "re", "json"} if added else set())
        command, env = [sys.executable, "-c", code.format(arguments)], os.environ | added
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("MODULES ")]
        assert not unwanted & set(line.split()), arguments
        assert "http.client" not in line.split() or "ask" in arguments, "servers of this machine are looked for"


@pytest.mark.matrix
@pytest.mark.parametrize(("noun", "verb"), LISTED)
def test_a_noun_without_a_verb_lists(nexus: Run, noun: str, verb: str) -> None:
    bare, whole = nexus(noun), nexus(noun, verb)
    assert (bare.returncode, bare.stdout, bare.stderr) == (0, whole.stdout, whole.stderr), bare
    assert b"Usage: nexus" in nexus(noun, "--help").stdout


@pytest.mark.matrix
def test_prompt_and_commands_come_before_what_prints_answers_is_imported() -> None:
    program = (
        "import sys, nexus_cli.cli.run.run_repl; from nexus_cli.commands import discover; discover();"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "prompt_toolkit" in loaded
    assert {"rich", "markdown_it", "pygments", "litellm", "tiktoken"}.isdisjoint(loaded)


@pytest.mark.matrix
@pytest.mark.parametrize("words", ["rules list", "rules test ls", "permissions"])
def test_commands_that_need_no_engine_load_none_for_the_text_of_their_report(tmp_path: Path, words: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "nexus_cli", *words.split()]
    environment = {**os.environ, "HOME": str(tmp_path), "NEXUS_HOME": str(tmp_path / "nexus")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert "nexus_cli.commands.forms" in done.stderr and "nexus_cli.session.session" not in done.stderr


def test_reports_of_what_is_saved_load_no_engine() -> None:
    program = (
        "import sys, nexus_cli.commands.usage, nexus_cli.reports.permissions;"
        "from nexus_cli.commands.forms import find_form; find_form('space_messages', 'space');"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "nexus_cli.reports.conversation" in loaded
    assert {"nexus_cli.session.session", "nexus_cli.engine.requests.engine"}.isdisjoint(loaded)
