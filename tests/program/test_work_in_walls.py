"""Daily work inside the walls: a failing test is fixed without a question, in each language; skills are read."""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from program.stage import Stage, calls, stage
from programs import need, why_no_bwrap
from project_files import write_files
from search import SEARCHES, sample, variant

from nexus_cli.sandbox.landlock import landlock_abi


class Language(NamedTuple):
    """A project with one failing test."""

    program: str
    test: str
    broken: str
    """The file that is wrong; `a - b` in it has to become `a + b`."""
    files: dict[str, str]


LANGUAGES = {
    "python": Language(
        sys.executable,
        f"{shlex.quote(sys.executable)} -m pytest -q -p no:randomly",
        "calc.py",
        {
            "calc.py": "def add(a, b):\n    return a - b\n",
            "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
        },
    ),
    "node": Language(
        "node",
        "node --test",
        "calc.js",
        {
            "calc.js": "exports.add = (a, b) => a - b\n",
            "calc.test.js": "const { equal } = require('assert')\n"
            "require('node:test')('add', () => equal(require('./calc').add(2, 3), 5))\n",
        },
    ),
    "npm": Language(
        "npm",
        "npm test --silent",
        "calc.js",
        {
            "calc.js": "const add = (a, b) => a - b\nif (add(2, 3) !== 5) throw 'FAILED'\n",
            "package.json": '{"name": "calc", "version": "1.0.0", "scripts": {"test": "node calc.js"}}\n',
        },
    ),
    "cargo": Language(
        "cargo",
        "cargo test -q --lib",
        "src/lib.rs",
        {
            "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a - b }\n"
            "#[test]\nfn adds() { assert_eq!(add(2, 3), 5) }\n",
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
        },
    ),
    "go": Language(
        "go",
        "go test ./...",
        "calc.go",
        {
            "calc.go": "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
            "calc_test.go": 'package calc\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n'
            '\t\tt.Fatal("FAILED")\n\t}\n}\n',
            "go.mod": "module calc\n\ngo 1.19\n",
        },
    ),
    "make": Language(
        "make",
        "make -s test",
        "calc.mk",
        {
            "calc.mk": "SUM = $(shell echo $$((2 - 3))) # a - b\n",
            "Makefile": "include calc.mk\ntest:\n\t@grep -q 'a + b' calc.mk\n",
        },
    ),
}


@pytest.fixture(params=["bwrap", variant("landlock")])
def backend(request: pytest.FixtureRequest) -> str:
    """Return a backend that this system has."""
    if request.param == "bwrap" and (why := why_no_bwrap()):
        pytest.skip(why)
    if request.param == "landlock" and not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    return str(request.param)


def make_project(place: Stage, files: dict[str, str]) -> None:
    write_files(place.folder, files)
    assert (
        place.shell("git init -q . && git add -A && git -c user.name=n -c user.email=n@x.org commit -qm x").status == 0
    )


def set_backend(place: Stage, backend: str) -> None:
    path = place.nexus_home / "config" / "config.toml"
    path.write_text(f'{path.read_text()}\n[sandbox]\nbackend = "{backend}"\n')


def tool_chain() -> dict[str, str]:
    """Return what moves with the home folder and is needed: where rustup has its tools, go its cache."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    moved = {"RUSTUP_HOME": home / ".rustup", "GOCACHE": home / ".cache/go-build"}
    return {name: str(path) for name, path in moved.items() if path.is_dir()}


def fix_a_test(root: Path, language: Language, backend: str) -> list[str]:
    """Let a model fix the test of a project; return what its three calls gave."""
    test = ("bash", {"command": language.test})
    # Not as long as before: Python takes a file of the same second and size for unchanged.
    edit = ("edit_file", {"path": language.broken, "edits": [{"old": "a - b", "new": "a + b + 0"}]})
    with stage(root, [calls(test), calls(edit), calls(test), "The sign was wrong."]) as place:
        set_backend(place, backend)
        make_project(place, language.files)
        done = place.ask("--json", "--allow", "run", "fix the failing test", env={**tool_chain()})
        assert done.status == 0 and done.result["text"] == "The sign was wrong.", done
        changed = set(done.result["files_changed"]) - {"Cargo.lock"}  # cargo's own, and part of the work
        assert done.result["denied"] == [] and changed == {language.broken}
        return place.results


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(LANGUAGES, 3))
def test_a_failing_test_is_fixed_without_a_question(name: str, backend: str, tmp_path: Path) -> None:
    language = LANGUAGES[name]
    need(language.program, **tool_chain())
    if name == "go" and not SEARCHES:
        pytest.skip("go compiles for seconds: only in a search")
    if name == "go" and "GOCACHE" not in tool_chain():
        pytest.skip("go has no warm cache")
    first, _, last = fix_a_test(tmp_path, language, backend)
    assert "exit status 0" not in first and last.endswith("[exit status 0]"), (first, last)
    told = [line for line in (first + last).splitlines() if line.startswith("[sandbox:")]
    assert told == [], "no command missed a key"


@pytest.mark.matrix
def test_skills_are_read_inside_the_walls_without_a_question(backend: str, tmp_path: Path) -> None:
    """A personal one and that of a trusted project; everything else of nexus's own folders stays hidden."""
    use = [("bash", {"command": f"nexus skill use {name}"}) for name in ("mine", "theirs")]
    look = ("bash", {"command": "cat $NEXUS_HOME/config/config.toml $NEXUS_HOME/config/mcp.json $NEXUS_HOME/data/*.db"})
    with stage(tmp_path, [calls(*use), calls(look), "done"]) as place:
        set_backend(place, backend)
        for folder, name in ((place.nexus_home / "config", "mine"), (place.folder / ".nexus", "theirs")):
            (folder / "skills" / name).mkdir(parents=True)
            (folder / "skills" / name / "SKILL.md").write_text(f"The guide of {name}.\n")
        (place.nexus_home / "config" / "mcp.json").write_text('{"mcpServers": {}}')
        make_project(place, {"a": "1"})
        assert place.run("trust", ".").status == 0
        done = place.ask("--json", "--allow", "read", "use the skills")
        assert done.status == 0 and [row["subject"][:4] for row in done.result["denied"]] == ["cat "], done
        place.script([calls(look), "done"])
        place.ask("--json", "--allow", "run", "look")
        texts = place.server.requests[1].results
        hidden = place.server.requests[-1].body["messages"][-1]["content"]
    assert [text.splitlines()[0] for text in texts] == ["The guide of mine.", "The guide of theirs."], texts
    assert "mcpServers" not in hidden and "backend" not in hidden and "SQLite" not in hidden, hidden


@pytest.mark.matrix
def test_a_hidden_ledger_is_not_taken_for_an_empty_one(backend: str, tmp_path: Path) -> None:
    commands = ("nexus runs list", "nexus schedule list", "nexus memory list", "nexus sessions list", "nexus usage")
    looks = [("bash", {"command": f"NEXUS_HOME=$PWD/own {command}; {command}"}) for command in commands]
    with stage(tmp_path, [calls(*looks), "done"]) as place:
        set_backend(place, backend)
        make_project(place, {"a": "1"})
        done = place.ask("--json", "--allow", "run", "what happened at night?")
        assert done.status == 0 and done.result["denied"] == [], done
        texts = place.results
    for command, text in zip(commands, texts, strict=True):
        assert "is not accessible in" in text and "[exit status 0" not in text, (command, text)
        assert text.count("is not accessible in") == 1, (command, "another home is not hidden", text)
