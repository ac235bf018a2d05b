"""stdout has the answer and nothing else; disks that are full, descriptors that are closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from program.nursery import run_born
from search import sample

Run = Callable[..., subprocess.CompletedProcess[bytes]]
MARKDOWN = b"# Title\n\nSome **bold** text.\n\n- one\n- two\n"


def test_a_pipe_gets_the_text_as_it_is_and_one_newline(engine: Run) -> None:
    done = engine("answer", "ask", "hi")
    assert (done.returncode, done.stdout) == (0, MARKDOWN)
    assert done.stderr == b"nexus: a notice from the session\n"
    assert engine("answer", "ask", "hi", "-q").stderr == b""


def test_a_pipe_gets_escapes_untouched_and_stderr_shows_them(engine: Run) -> None:
    done = engine("escapes", "ask", "-v", "hi")
    assert done.stdout == "plain \x1b[31mred\x1b[0m \u202etxt\n".encode()
    assert b"\x1b" not in done.stderr and "ls ␛[2J".encode() in done.stderr


def test_no_progress_outside_a_terminal_but_every_drop_and_refusal(engine: Run) -> None:
    lines = engine("tools", "ask", "hi").stderr.decode().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["nexus"] * 4
    assert "left out as d3" in lines[1] and "18,000" in lines[1] and "nexus drops show d3" in lines[1]
    assert "not compacted: the summary was empty" in lines[2]
    assert "1 call was refused: bash rm x" in lines[3]


@pytest.mark.matrix
def test_what_prints_a_drop_names_its_session_unless_nothing_is_kept(engine: Run) -> None:
    told = engine("tools", "ask", "-C", "/", "hi").stderr.decode()
    assert "; `nexus drops show d3 --session 01FAKE`\n" in told
    told = engine("tools", "ask", "--no-save", "hi").stderr.decode()
    assert "left out as d3" in told and "kept only until this run ends\n" in told and "nexus drops" not in told


@pytest.mark.matrix
def test_partial_text_is_given_out_only_where_the_provider_ended_it(engine: Run) -> None:
    cut = engine("length", "ask", "hi")
    assert (cut.returncode, cut.stdout) == (3, b"half an answ\n")
    lost = engine("lost", "ask", "hi")
    assert (lost.returncode, lost.stdout) == (1, b"")
    for scenario, text in (("length", "half an answ"), ("lost", "")):
        assert json.loads(engine(scenario, "ask", "--json", "hi").stdout)["text"] == text
        *_, end, result = map(json.loads, engine(scenario, "ask", "--stream-json", "hi").stdout.splitlines())
        assert (end["outcome"]["text"], result["text"]) == (text, text)
    for done in (cut, lost):
        *_, error, resume = done.stderr.splitlines()
        assert error.startswith(b"nexus: it went wrong: ") and error.endswith(b". Do better.")
        assert resume == b"Resume with: nexus ask -r 01FAKE"


@pytest.mark.matrix
def test_the_command_that_resumes_names_the_folder_and_is_not_told_without_saving(engine: Run, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    assert engine("lost", "ask", "-C", "a b", "hi").stderr.endswith(b"nexus ask -C 'a b' -r 01FAKE\n")
    assert b"Resume" not in engine("lost", "ask", "--no-save", "hi").stderr


@pytest.mark.parametrize("scenario", ["crash", "fail"])
def test_an_exception_in_the_engine_is_one_line_and_still_resumable(engine: Run, scenario: str) -> None:
    done = engine(scenario, "ask", "-q", "hi")
    error, resume = done.stderr.splitlines()
    assert b"RuntimeError at " in error if scenario == "crash" else b"disk full" in error
    assert done.returncode == 1 and b"Traceback" not in error and resume.startswith(b"Resume with:")


def test_json_is_one_object_and_nothing_else(engine: Run) -> None:
    assert json.loads(engine("answer", "ask", "--json", "hi").stdout)["text"] == MARKDOWN.decode()


def test_json_lines_are_numbered_without_gaps_and_end_in_the_result(engine: Run) -> None:
    lines = [json.loads(line) for line in engine("tools", "ask", "--stream-json", "hi").stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert {line["v"] for line in lines} == {1} and all(line["at"].endswith("Z") for line in lines)
    kinds = [line["type"] for line in lines]
    assert kinds[:3] == ["session.start", "turn.start", "tool.call"] and kinds[-2:] == ["turn.end", "result"]
    assert "x" * 1000 not in json.dumps(lines)


@pytest.mark.matrix
@pytest.mark.parametrize("way", ["--json", "--stream-json"])
def test_an_error_before_there_is_a_session_is_a_result_too(engine: Run, way: Any) -> None:
    for done, kind in (
        (engine("answer", "ask", way, "hi", env={"NEXUS_MODEL": ""}), "config"),
        (engine("refuse", "ask", way, "hi"), "ledger"),
    ):
        (line,) = done.stdout.splitlines()
        value = json.loads(line)
        assert (value["type"], value["ok"], value["exit"]) == ("result", False, done.returncode)
        assert value["finish"] == kind
        assert value["error"]["kind"] == kind and b"nexus: " in done.stderr


@pytest.mark.matrix
@pytest.mark.parametrize("unbuffered", sample(["", "1"], 2))
@pytest.mark.parametrize("arguments", [["--help"], ["config", "show"], ["--version"]])
def test_a_full_disk_is_told_and_is_exit_1(nexus: Run, arguments: list[str], unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = nexus(*arguments, stdout=full, env={"PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"cannot be written" in done.stderr


@pytest.mark.matrix
@pytest.mark.parametrize("closed", sample([((0,),), ((1,),), ((2,),), ((0, 1, 2),)], 4, 3))
def test_a_closed_descriptor_is_trouble_only_if_it_is_stdout(engine: Run, nexus: Run, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for number in closed:
            os.close(number)

    status = int(1 in closed)
    answered = engine("answer", "ask", "hi", preexec_fn=close)
    assert answered.stdout == (b"" if status else MARKDOWN)
    for done in (answered, nexus("--version", preexec_fn=close), nexus("--help", preexec_fn=close)):
        assert done.returncode == status
        assert (b"stdout cannot be written: Bad file descriptor" in done.stderr) == (closed == (1,))


def test_nothing_of_the_working_folder_is_imported(nexus: Run, tmp_path: Path) -> None:
    for name in ("json", "h2", "litellm", "typer", "tomllib", "socket", "asyncio", "sqlite3"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'caught')!r}, 'a').write({name!r})\n")
    for number, arguments in enumerate((["--version"], ["--help"], ["ask", "hi"], ["config", "show"], ["doctor"])):
        for path in ({}, {"PYTHONPATH": "." if number % 2 else str(tmp_path)}):
            if path:
                nexus(*arguments, env=path)
            else:
                run_born(arguments, cwd=tmp_path, kind="light")  # which imports the model library here
            assert not (tmp_path / "caught").exists(), (arguments, path, (tmp_path / "caught").read_text())


def test_the_folder_of_cd_is_as_untrusted_as_the_working_folder(engine: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "charset_normalizer.py").write_text(f"open({str(tmp_path / 'caught')!r}, 'a').write('x')\n")
    latin = "Größe\n".encode("latin-1") * 20
    done = engine("answer", "ask", "-C", "other", "hi", env={"PYTHONPATH": str(other)}, stdin=latin)
    assert done.returncode == 0 and b"not UTF-8" in done.stderr and not (tmp_path / "caught").exists()


def test_a_library_cannot_put_the_working_folder_back(tmp_path: Path) -> None:
    (tmp_path / "canary.py").write_text("print('caught')\n")
    code = (
        "from nexus_cli.cli import process; import importlib, os, sys\n"
        "process.block_imports_from_cwd()\n"
        "for entry in (os.getcwd(), '', '.'):\n"
        "    sys.path.append(entry); importlib.invalidate_caches()\n"
        "    try: import canary\n"
        "    except ImportError: print('absent')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "absent\n" * 3, done.stderr


@pytest.mark.matrix
def test_working_in_a_folder_of_the_interpreter_is_no_trouble(nexus: Run) -> None:
    for folder in (os.path.dirname(typer.__path__[0]), os.path.dirname(os.__file__), typer.__path__[0]):
        assert nexus("ask", "hi", cwd=folder).returncode == 2
        assert nexus("--help", cwd=folder).returncode == 0
