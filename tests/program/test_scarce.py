"""`nexus ask` where little is given: few open files, no home folder, no variables, and Ctrl+C for a whole pipeline."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from program.stage import NEXUS, SECONDS, Stage, clean, end, stage, until
from search import sample

SLOW = {"default": {"text": "word ", "repeat": 4000, "pace": 0.02}}


@pytest.mark.matrix
def test_twenty_open_files_are_enough(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        done = place.shell("ulimit -n 20; exec nexus ask hi", installed=True)
        assert (done.status, done.stdout, done.stderr) == (0, b"answer (1)\n", b"")


@pytest.mark.matrix
@pytest.mark.parametrize("most", sample([5, 15], 2))
def test_too_few_open_files_are_one_line_that_says_how_to_allow_more(tmp_path: Path, most: int) -> None:
    with stage(tmp_path) as place:
        # Not the launcher alone: in a path with a blank it is a script of sh, which wants more files itself.
        program = f"{shlex.quote(sys.executable)} {shlex.quote(NEXUS)}"
        done = place.shell(f"ulimit -n {most}; exec {program} ask --json hi")
        assert done.status == 2 and done.result["error"]["kind"] == "usage" and not place.server.requests
        assert len(done.told) == 1 and f": {most} files" in done.told[0] and "ulimit -n 256" in done.told[0]


@pytest.mark.matrix
def test_neither_a_home_folder_nor_a_path_is_needed(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        reach = ("NEXUS_HOME", "NEXUS_MODEL", "OPENAI_API_KEY", "OPENAI_API_BASE")
        given = {name: place.environment[name] for name in reach}
        with subprocess.Popen(
            [place.program, "ask", "hi"],
            env=given,
            cwd=place.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            stdout, stderr = child.communicate(timeout=SECONDS)
        assert (child.returncode, stdout, stderr) == (0, b"answer (1)\n", b"")
        assert place.ledger.exists()


def interrupted(place: Stage, line: str) -> tuple[int, bytes, list[str]]:
    """Send SIGINT to the group of a line of bash, as a terminal does, once the model has begun to answer."""
    path = f"{Path(place.program).parent}{os.pathsep}{place.environment['PATH']}"
    child = subprocess.Popen(
        ["bash", "-c", line],
        env=place.env({"PATH": path}),
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert until(lambda: bool(place.server.requests) and place.server.requests[0].sent > 2000)
        os.killpg(child.pid, signal.SIGINT)
        stdout, stderr = child.communicate(timeout=SECONDS)
        return child.returncode, stdout, stderr.decode().splitlines()
    finally:
        end(child, group=True)


@pytest.mark.matrix
def test_ctrl_c_ends_a_whole_pipeline_and_the_session_can_go_on(tmp_path: Path) -> None:
    with stage(tmp_path, SLOW) as place:
        status, stdout, told = interrupted(place, "nexus ask hi | cat")
        assert status in (130, -signal.SIGINT) and b"word" not in stdout
        assert any(one.startswith("Resume with: nexus ask -r ") for one in told)
        assert not any("Traceback" in one for one in told)
        assert place.server.wait_for(lambda server: server.requests[0].closed_early, SECONDS)
        place.script([{"text": "gone on"}])
        again = place.ask("-c", "go on")
        assert (again.status, again.text) == (0, "gone on\n") and clean(again)
