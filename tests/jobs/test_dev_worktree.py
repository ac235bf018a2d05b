"""The job: "add a function with a test", by a worker in a worktree of a project with installed dependencies.

The project's tests run in the worktree, in the sandbox, first red and then green. Whatever the worker does there to
dependencies, the environment and the `.env` file, the project's own stay as they are, to the byte and to the mode.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from programs import need
from project_files import commit_all, write_files
from search import sample, some
from server.received import tool_results

OWN = ("node_modules", ".venv", ".env")
Call = tuple[str, dict[str, Any]]


def read_own(folder: Path) -> dict[str, tuple[str, bytes, int]]:
    """Every ignored file of the project that work needs: mode, content or target, time."""
    found = {}
    for name in OWN:
        for path in [folder / name, *sorted((folder / name).rglob("*"))]:
            if not os.path.lexists(path):
                continue
            about = path.lstat()
            data = os.fsencode(os.readlink(path)) if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
            found[str(path.relative_to(folder))] = (stat.filemode(about.st_mode), data, about.st_mtime_ns)
    return found


def make_node_project(folder: Path) -> None:
    files = {
        ".gitignore": "node_modules/\n.env\n",
        "package.json": '{"name": "shop", "version": "1.0.0", "dependencies": {"sum-up": "1.0.0"}}\n',
        "lib.js": "const up = require('sum-up');\nexports.total = (list) => up(list);\n",
        "lib.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const lib = require('./lib');\nconst env = require('node:fs').readFileSync('.env', 'utf8');\n"
        "test('total', () => assert.equal(lib.total([1, 2]), 3));\n"
        "test('env', () => assert.match(env, /CURRENCY=EUR/));\n",
        "node_modules/sum-up/package.json": '{"name": "sum-up", "version": "1.0.0", "main": "index.js"}\n',
        "node_modules/sum-up/index.js": "module.exports = (list) => list.reduce((one, two) => one + two, 0);\n",
        "node_modules/sum-up/cli.js": "#!/usr/bin/env node\n",
        ".env": "CURRENCY=EUR\n",
    }
    write_files(folder, files)
    (folder / "node_modules/.bin").mkdir()
    (folder / "node_modules/.bin/sum-up").symlink_to("../sum-up/cli.js")
    (folder / "node_modules/sum-up/cli.js").chmod(0o755)
    (folder / ".env").chmod(0o600)
    commit_all(folder)


def make_python_project(folder: Path) -> None:
    """A `src` project with an environment, in which it is installed editable in both of the usual ways."""
    files = {
        ".gitignore": ".venv/\n.env\n__pycache__/\n.pytest_cache/\n",
        "src/shop/__init__.py": "def total(prices):\n    return sum(prices)\n",
        "src/tools_of_shop/__init__.py": "NAMES = ['a']\n",
        "tests/test_shop.py": "import pathlib\n\nimport shop\nimport tools_of_shop\n\n\ndef test_total():\n"
        "    assert shop.total([1, 2]) == 3 and tools_of_shop.NAMES\n    here = pathlib.Path(__file__).parents[1]\n"
        "    assert here in pathlib.Path(shop.__file__).parents, shop.__file__\n"
        "    assert here in pathlib.Path(tools_of_shop.__file__).parents, tools_of_shop.__file__\n"
        "    assert (here / '.env').read_text().startswith('CURRENCY=EUR')\n",
        ".env": "CURRENCY=EUR\n",
    }
    write_files(folder, files)
    (folder / ".env").chmod(0o600)
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (site,) = (folder / ".venv/lib").glob("python*/site-packages")
    (site / "_shop.pth").write_text(f"{folder}/src\n")
    (site / "__editable___tools_finder.py").write_text(
        f"import sys\nMAPPING = {{'tools_of_shop': '{folder}/src/tools_of_shop'}}\n"
        "for place in MAPPING.values():\n    sys.path.append(place.rpartition('/')[0])\n"
    )
    (site / "__editable__.tools.pth").write_text("import __editable___tools_finder\n")
    (site / "pytest_of_this_machine.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    script = folder / ".venv/bin/pytest"
    script.write_text(f"#!{folder}/.venv/bin/python\nimport sys\nfrom pytest import main\nsys.exit(main())\n")
    script.chmod(0o755)
    commit_all(folder)


NODE_RED: list[Call] = [
    ("bash", {"command": "node --test 2>&1 | grep -E '^# (pass|fail)'"}),
    (
        "edit_file",
        {
            "path": "lib.test.js",
            "edits": [{"old": "", "new": "test('most', () => assert.equal(lib.most([1, 2]), 2));\n"}],
        },
    ),
    ("bash", {"command": "node --test 2>&1 | grep -E '^# (pass|fail)'"}),
]
NODE_GREEN: list[Call] = [
    (
        "edit_file",
        {"path": "lib.js", "edits": [{"old": "", "new": "exports.most = (list) => Math.max(...list);\n"}]},
    ),
    ("bash", {"command": "node --test 2>&1 | grep -E '^# (pass|fail)'"}),
]
NODE_DAMAGE = (
    "echo 'broken(' >> node_modules/sum-up/index.js; chmod 777 node_modules/sum-up/cli.js; echo HURT=1 >> .env; "
    "mkdir -p node_modules/new && echo x > node_modules/new/index.js; rm node_modules/.bin/sum-up; chmod 644 .env; "
    "rm -rf node_modules .env; echo '' > .gitignore; mkdir node_modules; echo x > node_modules/left.js; echo x > .env"
)
MOST = "def most(prices):\n    return max(prices)\n"
PYTHON_RED: list[Call] = [
    ("bash", {"command": "python -m pytest -q 2>&1 | tail -3"}),
    (
        "write_file",
        {
            "path": "tests/test_most.py",
            "content": "import shop\n\n\ndef test_most():\n    assert shop.most([1]) == 1\n",
        },
    ),
    ("bash", {"command": "python -m pytest -q 2>&1 | tail -3; pytest -q 2>&1 | tail -1"}),
]
PYTHON_GREEN: list[Call] = [
    ("edit_file", {"path": "src/shop/__init__.py", "edits": [{"old": "", "new": f"\n\n{MOST}"}]}),
    ("bash", {"command": "python -m pytest -q 2>&1 | tail -3; pytest -q 2>&1 | tail -1"}),
]
PYTHON_DAMAGE = (
    "for one in .venv/lib/python*/site-packages; do echo /nowhere > $one/_shop.pth; echo x > $one/made.py; done; "
    "chmod 777 .venv/bin/pytest; echo '#!/bin/false' > .venv/bin/pytest; rm .venv/bin/python; echo HURT=1 >> .env; "
    "rm -rf .venv .env; printf '__pycache__/\\n.pytest_cache/\\n' > .gitignore; mkdir .venv; echo x > .venv/left; "
    "echo x > .env"
)


class Story:
    """A parent that hands the task over and applies the work, and its worker."""

    def __init__(self, red: list[Call], green: list[Call], damage: list[str]) -> None:
        self.steps = [red, green, [("bash", {"command": line}) for line in damage]]
        self.seen: list[str] = []
        """What the worker saw, the first message first."""

    def work(self, body: Any) -> dict[str, Any]:
        got = tool_results(body)
        self.seen = [str(body["messages"][-1]["content"])] if not got else [self.seen[0], *got]
        for step in self.steps:
            if len(got) < sum(map(len, self.steps[: self.steps.index(step) + 1])):
                return calls(*step)
        return {"text": "Added `most`, with a test; all tests pass."}

    def __call__(self, body: Any) -> dict[str, Any]:
        first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
        if "TASK most" in first:
            return self.work(body)
        got = tool_results(body)
        if not got:
            return calls(("agent", {"task": "TASK most", "worktree": True}))
        if len(got) == 1:
            return calls(("agents", {"action": "diff"}), ("agents", {"action": "apply"}))
        return {"text": "\n".join(got[1:])}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("bwrap")
    with stage(tmp_path, None) as made:
        yield made


def live(place: Stage, story: Story, level: str, **env: str) -> str:
    """Let the job be done; return what the parent was told of the diff and the apply."""
    before = read_own(place.folder)
    place.script(story)
    done = place.ask("--allow", level, "--json", "Let a worker add `most`, and apply it.", env=dict(env))
    assert done.status == 0, done
    assert read_own(place.folder) == before, "the project's own dependencies and settings stay as they are"
    return str(done.result["text"])


@pytest.mark.parametrize("level", some(["auto", "all"], 2))
def test_the_tests_of_a_node_project_run_in_a_worktree(place: Stage, level: str) -> None:
    need("node")
    make_node_project(place.folder)
    there = [f"echo x >> {place.folder}/{name}" for name in (".env", "node_modules/sum-up/index.js")]
    there += [f"rm -rf {place.folder}/node_modules"]
    story = Story(NODE_RED, NODE_GREEN, [NODE_DAMAGE, *(there if level == "auto" else [])])
    told = live(place, story, level)
    message, before, _, red, _, green, *_ = story.seen
    assert "node_modules/ (4 files" in message and ".env" in message and "not included in the diff" in message, message
    assert "# pass 2\n# fail 0" in before and "# fail 1" in red and "# pass 3\n# fail 0" in green, story.seen
    assert "+exports.most" in told and "b/node_modules" not in told and "b/.env" not in told, told
    assert [line for line in told.splitlines() if line.startswith("applied")] == [
        "applied .gitignore",
        "applied lib.js",
        "applied lib.test.js",
    ], told
    assert "exports.most" in (place.folder / "lib.js").read_text()
    done = subprocess.run(["node", "--test"], cwd=place.folder, capture_output=True)
    assert done.returncode == 0, "what was applied works with the project's own dependencies"
    (listed,) = place.run("worktree", "list", "--json").result["worktrees"]
    assert listed["carried"] == [".env", "node_modules/"] and listed["state"] == "applied", listed


@pytest.mark.parametrize("level", sample(["auto", "all"], 2))
def test_the_tests_of_a_python_project_run_in_a_worktree_and_test_its_code(place: Stage, level: str) -> None:
    make_python_project(place.folder)
    environment = place.folder / ".venv"
    path = f"{environment}/bin{os.pathsep}{place.environment['PATH']}"
    there = [f"rm -rf {environment}", f"echo x >> {place.folder}/.env"] if level == "auto" else []
    story = Story(PYTHON_RED, PYTHON_GREEN, [PYTHON_DAMAGE, *there])
    told = live(place, story, level, PATH=path, VIRTUAL_ENV=str(environment))
    message, before, _, red, _, green, *_ = story.seen
    assert ".venv/ (" in message and "not included in the diff" in message, message
    assert "1 passed" in before and red.count("1 failed, 1 passed") == 2 and green.count("2 passed") == 2, story.seen
    assert "+def most" in told and "b/.venv" not in told and "b/.env" not in told, told
    assert MOST in (place.folder / "src/shop/__init__.py").read_text()
    done = subprocess.run([environment / "bin/python", "-m", "pytest", "-q"], cwd=place.folder, capture_output=True)
    assert done.returncode == 0, done.stdout


def test_an_environment_that_is_not_copied_tests_the_code_of_the_worktree(place: Stage) -> None:
    """Too large to copy, or outside of the project: it is read as it is, with the worktree's modules first."""
    make_python_project(place.folder)
    place.settings(QUICK + PRICED + '[worktree]\ninclude = ["!.venv/"]\n')
    environment = place.folder / ".venv"
    path = f"{environment}/bin{os.pathsep}{place.environment['PATH']}"
    story = Story(PYTHON_RED, PYTHON_GREEN, ["pip --version; echo x > $VIRTUAL_ENV/made; rm -rf $VIRTUAL_ENV"])
    live(place, story, "auto", PATH=path, VIRTUAL_ENV=str(environment))
    message, before, _, red, _, green, *_ = story.seen
    assert ".venv" not in message.partition("# Task")[0].partition("In it: ")[2], message
    assert "1 passed" in before and red.count("1 failed, 1 passed") == 2 and green.count("2 passed") == 2, story.seen
