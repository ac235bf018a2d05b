"""What the warm process has ready before a run: in an interpreter of its own, since it imports everything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from server.play import ScriptedServer

RUN = """
import os, sys
from nexus_cli.cli import app, preload, process
from nexus_cli.provider import model_table
from nexus_cli.warm.server import EnvironmentReads
reads = EnvironmentReads()
reads.start()
preload.import_run()
reads.stop()
of_a_call = sorted({"PATH", "PWD", "TMPDIR", "NEXUS_HOME", "NEXUS_MODEL", "OPENAI_API_KEY", "NO_PROXY"} & reads.names)
missing = [name for name in preload.FIRST_REQUEST if name not in sys.modules]
before, started, table = set(sys.modules), [], []
def note(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn"):
        started.append(arguments[0])
    if event == "open" and str(arguments[0]).endswith(model_table.TABLE):
        table.append(arguments[0])
sys.addaudithook(note)
status = app.run(["ask", "-f", "a.txt", "--no-save", "hi"])
late = sorted(set(sys.modules) - before)
process.exit_process(status, repr((missing, late, started, table, reads.all, of_a_call)))
"""


@pytest.mark.matrix
def test_after_the_preload_a_run_imports_and_starts_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    with ScriptedServer() as server:
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "NEXUS_HOME": str(tmp_path / "home"),
            "NO_PROXY": "127.0.0.1",
            "NEXUS_MODEL": "openai/scripted",
            "OPENAI_API_KEY": "sk-nobody",
            "OPENAI_API_BASE": server.base("chat"),
        }
        done = subprocess.run(
            [sys.executable, "-c", RUN], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True
        )
    assert done.returncode == 0, done
    missing, late, started, table, *reads = eval(done.stdout.decode().splitlines()[-1])
    assert (missing, table, reads) == ([], [], [False, []])
    assert len(started) <= 1, started
    assert len(late) < 10, late
