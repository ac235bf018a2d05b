"""A day at level `ask`: what a careful model's lines ask, and whether what runs unasked answers as it would outside."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from programs import need
from rules.rows import decide, read_rows

from nexus_cli.config.settings import SandboxSettings
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.rules.rule_set import RuleSet
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.process import ChildSandbox, run_process

NONE = RuleSet()
ROWS = read_rows("day.tsv")
PROJECTS = {
    "py": {
        "pyproject.toml": '[project]\nname = "shop"\nversion = "0.1"\n',
        "README.md": "# Shop\n\nA cart with prices.\n",
        "Makefile": "test:\n\tpython3 -m pytest -q\n",
        ".gitignore": "__pycache__/\n",
        "src/shop/__init__.py": "from shop.cart import Cart as Cart\n",
        "src/shop/cart.py": "class Cart:\n    def __init__(self):\n        self.lines = []\n\n    def total(self):\n"
        "        return sum(self.lines)\n",
        "src/shop/prices.py": "import decimal\n\n\ndef half(price):\n    return round(price, 2)\n",
        "tests/test_cart.py": "from shop import Cart\n\n\ndef test_empty():\n    assert Cart().total() == 0\n",
        "tests/test_prices.py": "from shop.prices import half\n\n\ndef test_half():\n    assert half(1.005)\n",
        "docs/usage.md": "Add lines, ask for the total.\n",
        "data/prices.csv": "name,price\napple,3\npear,4\napple,5\n",
    },
    "node": {
        "package.json": '{\n  "name": "site",\n  "version": "1.2.0",\n  "scripts": {"test": "node --test test/", '
        '"build": "node build.js"}\n}\n',
        "package-lock.json": '{"name": "site", "version": "1.2.0", "lockfileVersion": 3, "packages": {}}\n',
        ".gitignore": "dist/\nnode_modules/\n",
        ".github/workflows/ci.yml": "on: push\njobs: {}\n",
        "build.js": "require('fs').mkdirSync('dist', {recursive: true});\n",
        "public/index.html": "<!doctype html>\n<title>Site</title>\n<p>Hello</p>\n",
        "src/render.js": "module.exports = (name) => `<p>${name}</p>`;  // TODO escape\n",
        "src/routes.js": "const render = require('./render');\nmodule.exports = {'/': render};\n",
        "test/render.test.js": "require('node:test')('renders', () => {});\n",
    },
}


def make_project(folder: Path, kind: str) -> Path:
    """Return a repository with two commits, a branch and work that is not committed."""

    def git(*words: str) -> None:
        own = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True)

    folder.mkdir()
    git("init", "-q")
    for place, (name, text) in enumerate(PROJECTS[kind].items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        if place == 5:
            git("add", "-A")
            git("commit", "-qm", "First half")
    source = folder / ("src/shop/cart.py" if kind == "py" else "src/render.js")
    git("add", "-A")
    git("commit", "-qm", "Second half")
    git("branch", "feature")
    source.write_text(source.read_text() + "\n")
    git("commit", "-qam", "End with an empty line")
    (folder / "notes.txt").write_text("look at rounding\n")
    return folder


@pytest.mark.matrix
@pytest.mark.parametrize("kind", PROJECTS)
def test_of_a_day_only_lines_ask_that_run_something_write_or_look_elsewhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(tmp_path / "p", kind)
    monkeypatch.chdir(folder)  # programs of the working folder's project ask too: it may have the Python of the tests
    rows = [(line, expected) for of, line, expected in ROWS if of == kind]
    asked = [line for line, _ in rows if decide(line, folder, "ask", NONE).decision == "ask"]
    assert asked == [line for line, expected in rows if expected == "ask"]
    assert len(rows) > 30 and len(asked) == {"py": 7, "node": 5}[kind]


@pytest.mark.matrix
@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
@pytest.mark.parametrize("kind", PROJECTS)
def test_what_runs_unasked_answers_as_it_would_outside_or_says_why_not(
    kind: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("rg", "jq", "node", "npm", "file"):
        need(program)
    folder = make_project(tmp_path / "p", kind)
    monkeypatch.chdir(folder)
    permission = CallPermission(folder, folder, sandbox=SandboxSettings(backend=backend))
    if not permission.has_sandbox():
        pytest.skip(f"no {backend} here")
    made = permission.make_sandbox("read")
    misleading = []
    for line, expected in [(line, expected) for of, line, expected in ROWS if of == kind and expected != "ask"]:
        results = [_run(line, folder, made.env, made.confinement), _run(line, folder, os.environ, None)]
        note = made.describe_denial(line, results[0][1], results[0][0])
        if results[0] != results[1] and (not note or expected != "note"):
            misleading.append((line, *results, note))
    permission.close()
    assert not misleading


def _run(line: str, folder: Path, env: Mapping[str, str], confinement: ChildSandbox | None) -> tuple[int, str]:
    """Return exit status and output of a line, without the folder above the project, of which the walls show less, and
    with sorted lines where `rg` prints files in the order in which its threads finish."""
    argv = ["bash", "-c", line]
    done = run_process(argv, cwd=folder, env=env, stop=StopFlag(), seconds=60, confinement=confinement)
    text = re.sub(r"(?m)^(?:d.* \.\.|total \d+)$", "", done.output.decode())
    return done.status, "\n".join(sorted(text.split("\n"))) if line.startswith("rg ") else text
