"""Run a worker program of ours, which parses foreign files, isolated from everything that it does not need.

It starts on the Python of nexus and never on one of the project, with an environment that has no keys, inside walls: no
network, no writing, and of files those alone that it is given. Its source was read when nexus started.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nexus_cli.config.paths import is_home_or_root
from nexus_cli.config.programs import own_interpreter
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.process import ProcessResult, run_process

ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}


def run_worker(
    source: str,
    stdin: bytes,
    *,
    project: Path,
    stop: StopFlag,
    seconds: float,
    reads: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> ProcessResult:
    """Run a program with the text `source` to its end; it may read the files and folders `reads`, and `libraries`.

    Blocks. Raises `ProgramRefused` as `own_interpreter`, and `OSError` as `run_process`.
    """
    interpreter = own_interpreter(project)
    standard = [os.path.join(place, name) for place in {sys.base_prefix, sys.prefix} for name in ("lib", "lib64")]
    standard += [os.path.join(sys.prefix, "pyvenv.cfg"), os.path.realpath(interpreter)]
    return run_walled(
        # -I and -S: import nothing from the working folder, and nothing that is not named in the job.
        [interpreter, "-I", "-S", "-c", source],
        stdin,
        stop=stop,
        seconds=seconds,
        reads=reads,
        system=[*standard, *libraries],
    )


def run_walled(
    argv: Sequence[str],
    stdin: bytes = b"",
    *,
    stop: StopFlag,
    seconds: float,
    reads: Sequence[str],
    system: Sequence[str] = (),
    cwd: Path = Path(os.sep),
) -> ProcessResult:
    """Run a program that is not of the project inside the walls of a worker, which reads `reads` and what it needs to
    start (`system`). Blocks; raises as `run_process`."""
    from nexus_cli.sandbox.walls import Walls  # noqa: PLC0415  (as `sandbox/`: at the first search)

    return run_process(
        argv,
        cwd=cwd,
        env=ENVIRONMENT,
        stop=stop,
        seconds=seconds,
        stdin=stdin,
        merge=False,
        confinement=Walls(map(os.path.realpath, reads), system=[argv[0], *system]),
    )


def find_library(name: str, project: Path) -> list[str]:
    """Return the real folder of a package, [] if it is not installed; raise `ToolError` if that is in `project`, where
    a command may have changed it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return []
    folder = os.path.realpath(Path(spec.origin).parent.parent)
    root = os.path.realpath(project)
    # A project that is `/` or the home folder contains the person's own programs.
    if not is_home_or_root(root) and Path(folder).is_relative_to(root):
        raise ToolError(
            f"{name} is installed in the project, where commands may have changed it. Install nexus elsewhere"
        )
    return [folder]
