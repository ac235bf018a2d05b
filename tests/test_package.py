"""The package as it is installed: its version, its declared dependencies, the README's two lines, hostile folders.

What only a built wheel can show is in `check_wheel.py`, which `.ci/run` calls.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import threading
import tomllib
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from check_wheel import undeclared
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from search import sample, variant

import nexus_cli
from nexus_cli.cli.version import read_commit
from nexus_cli.config.paths import defaults_dir

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(Path(sysconfig.get_path("scripts")) / "nexus")
WAYS = {"script": [SCRIPT], "module": [sys.executable, "-m", "nexus_cli"]}
INSTALLED = ("json", "httpx", "litellm", "openai", "rich", "sqlite3", "tomllib", "typer", "click", "tiktoken")
ABSENT = ("h2", "starlette", "fastapi", "brotli", "zstandard", "cryptography", "aiodns", "httpx_aiohttp", "socksio")
"""What libraries of ours try to import and do without: a working folder at the very end of the path is enough."""


def project() -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def requirements() -> list[str]:
    declared = project()["dependencies"]
    assert isinstance(declared, list)
    return [str(entry) for entry in declared]


def command_of(heading: str) -> list[str]:
    """The lines of the first sh block that opens the section `heading` of the README."""
    section = (ROOT / "README.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.match(r"\s*```sh\n(.*?)```\n", section, re.DOTALL)
    assert found, f"the section {heading} does not open with an sh block"
    return found.group(1).splitlines()


def run(command: Sequence[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def test_the_readme_is_short_and_what_it_links_to_is_there() -> None:
    for page in (ROOT / "README.md", ROOT / "nexus_cli" / "README.md"):
        links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
        assert links and [link for link in links if not (page.parent / link).exists()] == [], page
    assert len((ROOT / "README.md").read_text().split()) < 1500


@pytest.mark.parametrize("way", WAYS)
def test_the_version_is_that_of_the_package(way: str, tmp_path: Path) -> None:
    done = run([*WAYS[way], "--version"], tmp_path)
    assert done.stdout.split()[1] == importlib.metadata.version("nexus-cli") == nexus_cli.__version__
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("nexus ")


def test_the_version_names_the_commit_of_a_checkout(tmp_path: Path) -> None:
    assert read_commit(str(tmp_path)) == ""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]

    def ran(folder: Path, *words: str) -> str:
        return run([*git, *words], folder).stdout.strip()

    repository, worktree = tmp_path / "here", tmp_path / "there"
    repository.mkdir()
    ran(repository, "init", "-q")
    assert read_commit(str(repository)) == "", "no commit yet"
    ran(repository, "commit", "-q", "--allow-empty", "-m", "one")
    ran(repository, "worktree", "add", "-q", str(worktree))
    first = ran(repository, "rev-parse", "HEAD")
    assert len(first) == 40 and read_commit(str(repository)) == read_commit(str(worktree)) == first
    ran(worktree, "commit", "-q", "--allow-empty", "-m", "two")
    assert read_commit(str(worktree)) == ran(worktree, "rev-parse", "HEAD") != first
    ran(repository, "pack-refs", "--all")
    assert read_commit(str(repository)) == first
    ran(repository, "checkout", "-q", "--detach")
    assert read_commit(str(repository)) == first
    if found := read_commit(str(ROOT)):
        assert f"(commit {found[:12]})" in run([*WAYS["script"], "--version"], tmp_path).stdout


def test_a_release_is_built_checked_and_published_without_a_token() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    built, published = (str(jobs[name]["steps"]) for name in ("build", "publish"))
    assert "python -m build" in built and "tests/check_wheel.py" in built and "__version__" in built
    assert jobs["publish"]["needs"] == ["build", "parity"] and jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "gh-action-pypi-publish" in published and "'attestations': True" in published
    assert "secrets." not in built + published


@pytest.mark.matrix
def test_the_wheel_is_complete_where_nothing_else_of_nexus_is_installed(tmp_path: Path) -> None:
    """In an environment of its own, whose dependencies are ours; `.ci/run` does this with dependencies from PyPI."""
    pip = [sys.executable, "-m", "pip"]
    made = run([*pip, "wheel", "-q", "--no-deps", "-w", str(tmp_path / "wheel"), str(ROOT)], tmp_path)
    if made.returncode:
        pytest.skip(f"the wheel cannot be built: {made.stderr.strip().splitlines()[-1]}")
    venv = tmp_path / "env"
    run([sys.executable, "-m", "venv", str(venv)], tmp_path)
    own = run([str(venv / "bin/python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path)
    (Path(own.stdout.strip()) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    wheels = [str(path) for path in (tmp_path / "wheel").glob("*.whl")]
    install = [str(venv / "bin/pip"), "install", "-q", "--no-index", "--no-deps", "--ignore-installed", *wheels]
    done = run(install, tmp_path)
    assert done.returncode == 0, done.stderr
    sound = run([str(venv / "bin/python"), "-I", str(ROOT / "tests/check_wheel.py"), str(ROOT)], tmp_path)
    assert sound.returncode == 0, sound.stdout + sound.stderr


def test_a_checkout_finds_its_defaults_at_the_top_level() -> None:
    assert defaults_dir() == ROOT / "defaults"
    assert (defaults_dir() / "NEXUS.md").is_file()


def test_every_import_is_a_declared_dependency() -> None:
    assert undeclared(ROOT / "nexus_cli", requirements()) == []


@pytest.mark.matrix
def test_an_undeclared_import_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text("import json\nimport pytest\nfrom rich.text import Text\n")
    assert [line.split()[0] for line in undeclared(tmp_path, requirements())] == ["room.py:2"]


def test_constraints_pin_every_dependency_within_its_bounds() -> None:
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, exact, version = line.partition("==")
            assert exact, f"no exact pin: {line}"
            pins[canonicalize_name(name)] = version
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    for text in [*requirements(), *extras["dev"]]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), text


@pytest.mark.parametrize(("heading", "end"), [("Run", "nexus tour"), ("Test", "python tests/check.py")])
def test_the_readme_section_opens_with_one_command_line(heading: str, end: str) -> None:
    lines = command_of(heading)
    assert len(lines) == 1
    assert lines[0].startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert lines[0].endswith(end)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A working folder whose modules tell on themselves when they are imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    tale = f"open({str(tmp_path / 'sung')!r}, 'a').write(__name__ + '\\n')\n"
    for module in INSTALLED + ABSENT:
        (folder / f"{module}.py").write_text(tale)
    return folder


def sung(folder: Path) -> list[str]:
    heard = folder.parent / "sung"
    return heard.read_text().split() if heard.exists() else []


@pytest.fixture
def locked_model() -> Iterator[tuple[str, list[str]]]:
    """A model server that refuses every key: its base URL, and the paths that were asked for."""
    asked: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b'{"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}'
            self.send_response(401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_canary_sings_when_it_is_imported(hostile: Path) -> None:
    run([sys.executable, "-c", "import h2, litellm"], hostile)
    assert sung(hostile) == ["h2", "litellm"]


QUICK = [
    ("script", "--version", ""),
    ("script", "--help", "."),
    ("script", "doctor", ""),
    ("module", "--version", "."),
    ("module", "--help", ""),
    ("module", "doctor", "."),
]
"""Every two of way, line and PYTHONPATH once: each pair of them guards against the folder on its own."""


@pytest.mark.parametrize(("way", "line", "path"), [*sample(QUICK, 3), variant(("module", "ask hi", "."))])
def test_nothing_is_imported_from_the_working_folder(
    way: str, line: str, path: str, hostile: Path, locked_model: tuple[str, list[str]]
) -> None:
    arguments, (base, asked) = line.split(), locked_model
    named = ["--model", "openai/locked"] if arguments[0] == "ask" else []
    variables = {"OPENAI_API_KEY": "wrong", "OPENAI_API_BASE": base} | ({"PYTHONPATH": path} if path else {})
    done = run([*WAYS[way], *arguments, *named], hostile, **variables)
    assert sung(hostile) == []
    assert "Traceback" not in done.stderr
    if arguments[0] == "ask":
        assert asked, f"the model was never asked: {done.stderr}"
        assert done.returncode == 2
    else:
        assert done.returncode == 0, done.stderr
