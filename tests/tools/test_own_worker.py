"""Worker programs: what a hostile one finds, on both backends, and on which Python it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from search import sample
from tools.documents import make_pdf

from nexus_cli.config.paths import places
from nexus_cli.sandbox import walls
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.landlock import NEWEST_ABI, landlock_abi
from nexus_cli.sandbox.probe import find_backend
from nexus_cli.tools import documents, web_page
from nexus_cli.tools.builtin import grep
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.own_worker import find_library, run_worker

HOSTILE = """
import json, os, socket, sys
tried = {}
def attempt(name, act):
    try:
        act()
        tried[name] = "done"
    except OSError as error:
        tried[name] = error.strerror
inside, outside, starter = ATTEMPTED
attempt("read inside", lambda: open(inside).read())
attempt("read outside", lambda: open(outside).read())
attempt("list outside", lambda: os.listdir(os.path.dirname(outside)))
attempt("read passwd", lambda: open("/etc/passwd").read())
attempt("read environ", lambda: open(f"/proc/{starter}/environ").read())
for place in (inside, outside, inside + ".new", outside + ".new", "/dev/shm/nexus-worker"):
    attempt("write " + place, lambda: open(place, "a").close())
attempt("chmod", lambda: os.chmod(inside, 0o777))
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    attempt("socket " + family.name, lambda: socket.socket(family))
print(json.dumps({"tried": tried, "environ": dict(os.environ), "python": sys.executable}))
"""


@pytest.fixture(params=["landlock", "bwrap"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend that holds the walls."""
    probe = BackendProbe(Backend.LANDLOCK, abi=min(landlock_abi(), NEWEST_ABI))
    if request.param == "bwrap":
        probe = find_backend("bwrap", own=places(), keep=False)
    if probe.backend is Backend.NONE or (probe.backend is Backend.LANDLOCK and not probe.abi):
        pytest.skip(f"this system has no {request.param}")
    monkeypatch.setattr(walls, "own_backend", lambda: probe)
    return str(request.param)


@pytest.mark.matrix
def test_a_hostile_worker_reads_what_it_was_given_and_nothing_else(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    given, other = tmp_path / "given", tmp_path / "other"
    for folder in (given, other):
        folder.mkdir()
        (folder / "file").write_text("text")
    source = HOSTILE.replace("ATTEMPTED", repr((str(given / "file"), str(other / "file"), os.getpid())))
    done = run_worker(source, b"", project=given, stop=StopFlag(), seconds=60, reads=[str(given)])
    answer = json.loads(done.output)
    tried = answer["tried"]
    assert tried.pop("read inside") == "done", tried
    assert [name for name, outcome in tried.items() if outcome == "done"] == [], backend
    assert set(answer["environ"]) <= {"PATH", "LANG", "LC_CTYPE", "PWD", "NEXUS_CHILD_OF"}
    assert sorted(map(str, tmp_path.rglob("*"))) == [str(one) for one in (given, given / "file", other, other / "file")]
    assert (given / "file").read_text() == (other / "file").read_text() == "text"


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(["grep", "rg", "html", "pdf"], 3))
def test_no_worker_has_a_key_or_starts_without_walls(desk: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    started: list[tuple[str, dict[str, str]]] = []
    start = walls.Walls.start

    def noted(self: walls.Walls, argv: Any, **options: Any) -> Any:
        if os.path.basename(argv[0]) != "git":
            started.append((argv[0], options["env"]))
        return start(self, argv, **options)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr(walls.Walls, "start", noted)
    use: dict[str, Callable[[], object]] = {
        "grep": lambda: desk.run("grep", pattern="x", path="a"),
        "rg": lambda: desk.run("grep", pattern="x"),
        "html": lambda: web_page.convert_page(web_page.WebPage(200, b"<html><p>x", "text/html"), StopFlag(), Path("/")),
        "pdf": lambda: documents.read_pdf(make_pdf(["x"]), 1, None, StopFlag(), Path("/")),
    }
    desk.write("a", "x\n")
    desk.write("b", "x\n")
    use[name]()
    assert started, f"{name} was not started in walls"
    assert not any("sk-secret" in str(env) for _, env in started)
    assert {set(env) <= {"PATH", "LANG", "LC_CTYPE", "NEXUS_CHILD_OF"} for _, env in started} == {True}


def test_a_worker_starts_on_no_python_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / ".venv/bin/python"
    made.parent.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    real = os.path.realpath(sys.executable)
    made.symlink_to(real)
    monkeypatch.setattr(sys, "executable", str(made))
    done = run_worker("import sys; print(sys.executable)", b"", project=tmp_path, stop=StopFlag(), seconds=60)
    assert done.output.decode().strip() == real


@pytest.mark.matrix
def test_a_worker_starts_on_a_python_whose_path_goes_up_again(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    (tmp_path / "venv/bin/python").symlink_to(os.path.realpath(sys.executable))
    for way in ("work/..", "link/..", "work/../link/.."):
        monkeypatch.setattr(sys, "executable", f"{tmp_path}/{way}/venv/bin/python")
        done = run_worker("print('started')", b"", project=Path("/"), stop=StopFlag(), seconds=60)
        assert done.output.strip() == b"started", (way, done)


def test_a_program_that_is_a_link_in_a_folder_of_the_system_starts(tmp_path: Path, backend: str) -> None:
    """As `/usr/bin/python3` on Debian, on which a virtual environment is made."""
    links = (str(path) for path in Path("/usr/bin").iterdir() if path.is_symlink() and path.exists())
    inside = walls.Walls([str(tmp_path)], system=[next(links)])
    with inside.start(["/bin/echo", "started"], cwd=tmp_path, stdout=subprocess.PIPE) as run:
        assert run.communicate()[0] == b"started\n", backend


def test_a_library_in_the_project_is_not_started(tmp_path: Path) -> None:
    folder = Path(find_library("bs4", tmp_path)[0])
    with pytest.raises(ToolError, match="bs4 is installed in the project"):
        find_library("bs4", folder)
    assert grep._libraries(folder) == [] or "charset_normalizer" not in os.listdir(folder)


@pytest.mark.matrix
def test_a_search_guesses_encodings_without_the_library_as_far_as_it_can(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("a", "größe und straße, für übermäßig schöne öfen: wörter\n".encode("cp1252"))
    assert "größe" in desk.run("grep", pattern="für").output
    monkeypatch.setattr(grep, "_libraries", lambda project: [])
    assert "gr\ufffd\ufffde" in desk.run("grep", pattern="und").output


def test_where_no_sandbox_works_a_worker_runs_with_the_bare_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr(walls, "own_backend", lambda: BackendProbe(Backend.NONE))
    done = run_worker("import os; print(dict(os.environ))", b"", project=tmp_path, stop=StopFlag(), seconds=60)
    assert done.status == 0 and b"PATH" in done.output and b"sk-secret" not in done.output
