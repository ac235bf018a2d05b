"""nexus installed in the project: its helpers run the code that was there when they were loaded, not what a command
made of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pypdfium2
import pytest

import nexus_cli

ESCAPE = "open({!r}, 'w').write('escaped')\ndef launch(): pass\n"
READ_PDF = """
import os
from pathlib import Path
from nexus_cli.tools import documents
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError
worker.write_text(escape)
os.environ["SECRET_KEY"] = "sk-1"
try:
    documents.read_pdf(b"%PDF-1.4", 1, None, StopFlag(), project)
except ToolError as error:
    print(error)
"""
LAUNCH = """
import os, subprocess
from nexus_cli.sandbox.confinement import launch_arguments
worker.write_text(escape)
rules, program = os.memfd_create("rules"), os.memfd_create("program")
line = launch_arguments(sys.executable, rules, program, ())
print(subprocess.run([*line, "/bin/true"], pass_fds=(rules, program), stderr=subprocess.STDOUT).returncode)
"""


def play(folder: Path, script: str, worker: str, project: Path) -> tuple[str, bool]:
    """Run `script` with a copy of nexus in `folder`; return its output, and True if the changed `worker` ran."""
    site, escaped = folder / "site", folder / "escaped"
    ignored = shutil.ignore_patterns("__pycache__", "docs")
    shutil.copytree(Path(nexus_cli.__file__).parent, site / "nexus_cli", ignore=ignored)
    head = (
        f"import sys; sys.path.insert(0, {str(site)!r})\nfrom pathlib import Path\n"
        f"worker, escape = Path({str(site / 'nexus_cli' / worker)!r}), {ESCAPE.format(str(escaped))!r}\n"
        f"project = Path({str(project)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done
    return done.stdout, escaped.exists()


@pytest.mark.matrix
def test_a_changed_pdf_helper_is_not_run(tmp_path: Path) -> None:
    told, escaped = play(tmp_path, READ_PDF, "tools/pdf_worker.py", tmp_path)
    assert not escaped and "is a PDF that cannot be read: it is broken" in told, told


@pytest.mark.matrix
def test_a_pdf_library_in_the_project_is_not_run(tmp_path: Path) -> None:
    told, _ = play(tmp_path, READ_PDF, "tools/pdf_worker.py", Path(pypdfium2.__file__).parents[1])
    assert "pypdfium2 is installed in the project" in told, told


@pytest.mark.matrix
@pytest.mark.skipif(sys.platform != "linux", reason="Landlock")
def test_a_changed_launcher_does_not_start_a_command_without_the_sandbox(tmp_path: Path) -> None:
    told, escaped = play(tmp_path, LAUNCH, "sandbox/confined_launch.py", tmp_path)
    assert not escaped and "126" in told and "nexus: " in told, told
