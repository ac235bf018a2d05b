"""The job: "rename area() to size()", in a library and in the application that uses it, two repositories.

`--add-dir` opens the library like the project: read, searched, edited, its tests run in the sandbox; a third folder
stays closed, and what git obeys in the library is protected.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Done, Stage, calls, stage
from programs import need
from project_files import write_files
from search import sample
from server.received import tool_results

from nexus_cli.config.paths import places
from nexus_cli.sandbox.backend import Backend
from nexus_cli.sandbox.probe import find_backend

LIBRARY = {
    "shapes.py": "def area(a, b):\n    return a * b\n",
    "test_lib.py": "import shapes\nassert shapes.size(2, 3) == 6\n",
}
APP = {
    "app.py": "import sys\nsys.path[:0] = ['../library']\nimport shapes\ndef total():\n    return shapes.area(2, 3)\n",
    "test_app.py": "import app\nassert app.total() == 6\n",
}


def repository(folder: Path, files: dict[str, str]) -> Path:
    write_files(folder, files)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        repository(made.folder, APP)
        repository(made.folder.parent / "library", LIBRARY)
        (made.folder.parent / "other").mkdir()
        yield made


def play(place: Stage, steps: list[tuple[str, dict[str, Any]]], *options: str) -> tuple[Done, str, list[str]]:
    """Let the model make these calls, one a step; return the end, what it is told first, and the results."""
    seen: list[Any] = []
    left = iter(steps)

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        step = next(left, None)
        return calls(step) if step else {"text": "Done."}

    place.script(model)
    done = place.ask("--json", *options, "Rename area() to size().")
    if not seen:
        return done, "", []
    told = str(seen[0]["messages"][0]["content"])
    return done, told, tool_results(seen[-1])


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "edits": [{"old": old, "new": new}]}


@pytest.mark.parametrize("backend", sample([Backend.BWRAP, Backend.LANDLOCK], 2))
def test_a_change_across_a_library_and_its_application(place: Stage, backend: Backend) -> None:
    if find_backend(backend, own=places(), project=place.folder).backend is not backend:
        need("bwrap") if backend is Backend.BWRAP else pytest.skip("no landlock")
    place.settings(f'{QUICK}{PRICED}\n[sandbox]\nbackend = "{backend.value}"\n')
    library, other = place.folder.parent / "library", place.folder.parent / "other"
    done, told, results = play(
        place,
        [
            ("read_file", {"path": "../library/shapes.py"}),
            ("grep", {"pattern": "area", "path": str(library)}),
            edit("../library/shapes.py", "def area", "def size"),
            ("read_file", {"path": "app.py"}),
            edit("app.py", "shapes.area", "shapes.size"),
            ("bash", {"command": "cd ../library && python3 test_lib.py && echo library passed > passed; cat passed"}),
            ("bash", {"command": "python3 test_app.py && echo application passed"}),
            ("bash", {"command": f"echo x > {other}/made; ls {other}"}),
            ("write_file", {"path": str(other / "file"), "content": "x"}),
            ("write_file", {"path": str(library / ".git/hooks/pre-commit"), "content": "x"}),
            ("bash", {"command": f"echo x > {library}/.git/hooks/pre-commit; echo x > {library}/NEXUS.md"}),
        ],
        *("--allow", "auto", "--add-dir", str(library)),
    )
    assert done.status == 0, done
    assert told.count(str(library)) == 1 and "def area" in results[0] and "shapes.py" in results[1], results
    assert (library / "shapes.py").read_text().startswith("def size")
    assert "shapes.size" in (place.folder / "app.py").read_text()
    assert "library passed" in results[5] and "application passed" in results[6], results
    assert not list(other.iterdir()), results[7:9]
    assert not (library / ".git/hooks/pre-commit").exists() and not (library / "NEXUS.md").exists(), results[9:]


@pytest.mark.matrix
def test_a_command_that_only_reads_there_needs_no_approval(place: Stage) -> None:
    library = place.folder.parent / "library"
    line = ("bash", {"command": "cat ../library/shapes.py"})
    done, _, (shown,) = play(place, [line], "--add-dir", "../library", "--cd", str(place.folder))
    assert done.status == 0 and "def area" in shown, (done, shown, library)
    done, _, (refused,) = play(place, [line])
    assert "def area" not in refused and done.result["denied"], refused


def test_the_session_keeps_the_folder_and_says_when_it_is_gone(place: Stage) -> None:
    library = place.folder.parent / "library"
    read = ("read_file", {"path": "../library/shapes.py"})
    first, _, _ = play(place, [read], "--add-dir", str(library))
    resume = ("--resume", first.result["session"])
    again, _, results = play(place, [read], *resume)
    assert again.status == 0 and "def area" in results[-1] and not again.result["denied"], results
    library.rename(library.with_name("moved"))
    gone, _, _ = play(place, [], *resume)
    assert any(str(library) in line and "there is no such folder" in line for line in gone.told), gone.told


@pytest.mark.parametrize("backend", sample([Backend.BWRAP, Backend.LANDLOCK], 2, 1))
def test_deny_rules_without_a_slash_in_front_hold_in_it(place: Stage, backend: Backend) -> None:
    if find_backend(backend, own=places(), project=place.folder).backend is not backend:
        need("bwrap") if backend is Backend.BWRAP else pytest.skip("no landlock")
    denied = 'deny = ["read_file(*.key)", "read_file(private/**)"]'
    place.settings(f'{QUICK}{PRICED}\n[sandbox]\nbackend = "{backend.value}"\n[rules]\n{denied}\n')
    library = place.folder.parent / "library"
    (library / "private").mkdir()
    for name in ("a.key", "private/x"):
        (library / name).write_text("SECRET")
    steps: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "../library/a.key"}),
        ("read_file", {"path": "app.py", "more": [f"{library}/private/x:1-2"]}),
        ("grep", {"pattern": "SECR", "path": str(library)}),
        ("bash", {"command": "cat ../library/a.key; cat ../library/private/x"}),
        ("bash", {"command": "python3 -c 'print(open(\"../library/a.key\").read())'"}),
        ("bash", {"command": "python3 -c 'print(open(\"../library/private/x\").read())'"}),
        ("read_file", {"path": "../library/shapes.py"}),
    ]
    _, _, results = play(place, steps, "--allow", "auto", "--add-dir", str(library))
    assert len(results) == len(steps) and not any("SECRET" in one for one in results), results
    assert "def area" in results[-1], results


def test_its_settings_and_instructions_do_not_count(place: Stage) -> None:
    library = place.folder.parent / "library"
    (library / "NEXUS.md").write_text("LIBRARY RULE\n")
    (library / ".nexus").mkdir()
    (library / ".nexus/config.toml").write_text("max_steps = 1\n")
    done, told, results = play(place, [("read_file", {"path": "app.py"})], "--add-dir", str(library))
    assert done.status == 0 and len(results) == 1 and "LIBRARY RULE" not in json.dumps(told), (done, told)


@pytest.mark.parametrize(
    ("named", "why"),
    sample(
        [
            ("/", "contains"),
            ("..", "this folder is or contains your home folder"),
            (".", "this folder is already in the project"),
            ("sub", "this folder is already in the project"),
            ("link", "this folder is already in the project"),
            ("app.py", "not a folder"),
            ("nowhere", "there is no such folder"),
        ],
        3,
    ),
)
def test_an_unusable_folder_is_one_line_and_exit_2(place: Stage, named: str, why: str) -> None:
    (place.folder / "sub").mkdir()
    (place.folder.parent / "link").symlink_to(place.folder / "sub")
    shown = str(place.folder.parent / named) if named == "link" else named
    done = place.ask("--add-dir", shown, "x")
    [line] = done.told
    assert done.status == 2 and line.startswith(f"nexus: --add-dir {shown}: ") and why in line, done
