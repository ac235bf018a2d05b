"""The job: "run the tests", in a project with a `.venv` and `node_modules` that nobody activated.

Its own Python runs them and its own programs are found, in the sandbox alone: what a project calls `git` or `cat` is
run neither by commands that need no approval nor outside of the sandbox.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from programs import need
from server.received import tool_results

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PLANTED = "#!/bin/sh\necho planted\n"
TEST = "import only_in_venv\n\n\ndef test_total():\n    assert only_in_venv.NAME == 'shop'\n"


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path) as made:
        base = getattr(sys, "_base_executable", sys.executable)
        subprocess.run([base, "-m", "venv", "--without-pip", made.folder / ".venv"], check=True)
        (site,) = (made.folder / ".venv/lib").glob("python*/site-packages")
        (site / "only_in_venv.py").write_text("NAME = 'shop'\n")
        (site / "pytest_of_this_machine.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
        (made.folder / "test_shop.py").write_text(TEST)
        write_program(made.folder / "node_modules/.bin/build-shop", "#!/bin/sh\necho built\n")
        for folder in (".venv/bin", "node_modules/.bin"):
            write_program(made.folder / folder / "cat", PLANTED)
            write_program(made.folder / folder / "git", PLANTED)
        yield made


def results(place: Stage, level: str, *lines: str) -> tuple[str, list[str]]:
    """What the model is told first, and the results of its commands."""
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        got = tool_results(body)
        return {"text": "Done."} if got else calls(*(("bash", {"command": line}) for line in lines))

    place.script(model)
    done = place.ask("--allow", level, "--json", "Run the tests.")
    assert done.status == 0, done
    told = str(seen[0]["messages"][0]["content"])
    return told, tool_results(seen[-1])


def test_the_tests_run_with_the_environment_that_lies_in_the_project(place: Stage) -> None:
    told, (tests, where, built, free) = results(
        place, "auto", "python3 -m pytest -q", "echo $VIRTUAL_ENV > made; cat < made", "build-shop", "cat test_shop.py"
    )
    assert told.count(f"python {VERSION} from .venv") == 1 and "node_modules/.bin" in told, told
    assert "1 passed" in tests and "built" in built, (tests, built)
    assert (place.folder / "made").read_text() == f"{place.folder}/.venv\n", where
    assert "only_in_venv" in free and "planted" not in free, "a command that only reads runs the system's programs"


def test_outside_the_sandbox_no_program_of_the_project_is_found(place: Stage) -> None:
    _, (shown, made, again) = results(
        place,
        "all",
        "cat test_shop.py",
        "touch made; cat test_shop.py",
        "touch again; echo $VIRTUAL_ENV; git --version",
    )
    assert "only_in_venv" in shown and "only_in_venv" in made and "git version" in again, (shown, made, again)
    assert "planted" not in shown + made + again
    notes = (shown + made + again).count(f"python {VERSION} from .venv")
    assert notes == 1, "the model is told once where the environment does not count"
