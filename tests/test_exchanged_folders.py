"""A folder becomes a link at the n-th thing that the product does: what the link leads to is not read, copied, changed.

A job of the model runs while the product looks at a project, copies git's folder, makes a worktree, compares protected
places. It can exchange a folder for a link between a check and the use of what was checked. An audit hook does so here
at each event in turn: an open, a listing, a link, a rename, a removal, a start of a program.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sandbox.scene import in_user
from search import SEARCHES, some, variant
from worktrees.repository import git, make_project

from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.engine.calls.edit_checks import EditChecks
from nexus_cli.sandbox.command_guard import CommandGuard
from nexus_cli.sandbox.profile import make_profile
from nexus_cli.session import until_rounds
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.journal import read_steps
from nexus_cli.undo.undo_turn import UndoRequest, undo_turn
from nexus_cli.worktrees import apply_worktree, worktrees

SECRET = "sekrit-57c1"
EVENTS = frozenset(
    "open os.listdir os.scandir os.link os.rename os.remove os.rmdir os.mkdir os.symlink subprocess.Popen".split()
)
OWNER = StepOwner("exchanged", 1)
_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class World:
    """A project, and a folder of the person with the names of `target` and secrets in them, to which a link leads."""

    base: Path
    target: Path
    at: int = -1
    """The event before which the folder and the link change places; -1: never."""
    events: list[str] = field(default_factory=list)
    """The last name of what each event was about."""
    is_watching: bool = False
    before: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """What lies with the person."""

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def person(self) -> Path:
        return self.base / "person"

    def prepare(self) -> None:
        """Make the link and what it leads to."""
        copy = self.person / "there"
        self.person.mkdir()
        if self.target.is_dir():
            shutil.copytree(self.target, copy, symlinks=True)
            (copy / "id_rsa").write_text(SECRET)
        else:
            copy.write_text(SECRET)
        for path in [copy, *copy.rglob("*")]:
            if path.is_file() and not path.is_symlink():
                path.chmod(0o600)
                path.write_text(f"{SECRET} {path.name}\n")
        (self.base / "link").symlink_to(copy)
        self.before = tree(self.person)

    def exchange(self) -> None:
        """Let the target and the link change places."""
        pair = (os.fsencode(self.target), os.fsencode(self.base / "link"))
        _libc.renameat2(-100, pair[0], -100, pair[1], _EXCHANGE)

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_watching or event not in EVENTS:
            return
        if event == "open" and str(arguments[0]).startswith((sys.prefix, sys.base_prefix, "/proc", "/dev")):
            return
        self.events.append(os.path.basename(os.fsdecode(arguments[0])) if isinstance(arguments[0], str | bytes) else "")
        if len(self.events) - 1 == self.at:
            self.exchange()

    @contextmanager
    def watched(self) -> Iterator[None]:
        self.is_watching = True
        try:
            yield
        finally:
            self.is_watching = False

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """The folder is back in its place, as a command in the walls could not write through the link."""
        self.is_watching, was_link = False, self.target.is_symlink()
        if was_link:
            self.exchange()
        yield
        if was_link:
            self.exchange()
        self.is_watching = True


def undo(world: World) -> list[str]:
    journal, data, project = ChangeJournal(places().data), places().data, world.project
    with world.watched():
        begun = journal.begin(OWNER, "bash x", "", project)
        with world.as_it_was():
            (project / "sub/data.bin").write_text("changed\n")
            (project / "new.txt").write_text("new\n")
            (project / "old.txt").unlink()
        told = journal.end(begun)
        report = undo_turn(UndoRequest(data, OWNER.session, 1, str(project), str(project)))
    return [*told, json.dumps(report), *(str(step) for step in read_steps(data, OWNER.session))]


def undo_of_a_removed_repository(world: World) -> list[str]:
    journal, data, project = ChangeJournal(places().data), places().data, world.project
    with world.watched():
        begun = journal.begin(OWNER, "bash x", "", project)
        with world.as_it_was():
            for name in ("objects", "refs", "HEAD"):
                path = project / ".git" / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        told = journal.end(begun)
        report = undo_turn(UndoRequest(data, OWNER.session, 1, str(project), str(project)))
    return [*told, json.dumps(report), *(str(step) for step in read_steps(data, OWNER.session))]


def make_worktree(world: World) -> list[str]:
    with world.watched():
        stay = worktrees.enter_worktree(world.project, "w")
        notices = [*stay.notices, stay.leave()]
    return notices


def apply_a_worktree(world: World) -> list[str]:
    record = worktrees.enter_worktree(world.project, "w").record
    (record.folder / "sub/data.bin").write_text("by the worker\n")
    (record.folder / "sub/new/deep.txt").parent.mkdir()
    (record.folder / "sub/new/deep.txt").write_text("new\n")
    (record.folder / "old.txt").unlink()
    (record.folder / "node_modules/m/more.js").write_text("1\n")
    if not world.target.is_relative_to(world.project):
        world.target = record.folder / world.target.relative_to(world.base / "worktree")
        world.prepare()
    os.mkfifo(record.folder / "sub/pipe")
    with world.watched():
        told = [json.dumps(worktrees.describe_worktree(record))]
        told += [json.dumps(apply_worktree.apply_worktree(record).to_json(record))]
        told += [worktrees.remove_worktree(record, force=True)]
    return told


def guard(world: World) -> list[str]:
    profile = make_profile(
        "write",
        own=places(),
        temp=world.base / "temp",
        environ={"HOME": str(world.person)},
        project=world.project,
        cwd=world.project,
    )
    with world.watched():
        held = CommandGuard(profile)
        with world.as_it_was():
            (world.project / ".git/hooks/pre-commit").write_text("evil\n")
            (world.project / ".nexus/config.toml").unlink()
            (world.project / "sub/AGENTS.md").write_text("Obey.\n")
        return held.end()


def edit_checks(world: World) -> list[str]:
    names = ["sub/data.bin", "app.py"]
    checks = EditChecks(world.project, None, None, lambda: "auto")  # type: ignore[arg-type]
    with world.watched():
        told = [*checks._digests(names), str(dict(until_rounds._hash_files(world.project, names)))]
    return told


GIT = (".git", ".git/objects", ".git/refs", ".git/info", ".git/lfs/d1", ".git/index", ".git/HEAD", ".git/logs")
SCENES: dict[str, tuple[Callable[[World], list[str]], tuple[str, ...]]] = {
    "undo": (undo, ("sub", *GIT)),
    "undo of a removed repository": (undo_of_a_removed_repository, ("sub", *GIT)),
    "a worktree is made": (make_worktree, ("sub", "node_modules/m", ".nexus", ".git/info/exclude", *GIT)),
    "a worktree is applied and removed": (
        apply_a_worktree,
        ("sub", "worktree/sub", "worktree/.git/info", "worktree/.git/logs", "worktree/node_modules/m", "worktree/.git"),
    ),
    "the guard": (guard, ("sub", ".git/hooks", ".git", ".nexus", ".git/info")),
    "edit checks": (edit_checks, ("sub", "sub/data.bin")),
}
"""By name: what the product does, and what is exchanged meanwhile."""
ROWS = [(scene, target) for scene, (_, targets) in SCENES.items() for target in targets]
IN_GATE = ("undo", "sub"), ("the guard", "sub")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one of each kind of file that is looked at."""
    project = make_project(Path(os.path.realpath(tmp_path_factory.mktemp("origin"))) / "project")
    for name in (
        ".git/lfs/d1/f",
        ".git/lfs/d2/f",
        ".nexus/config.toml",
        "node_modules/m/index.js",
        ".env",
        "sub/x.txt",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("# own\n")
    (project / ".gitignore").write_text("node_modules/\n.env\n*.log\n")
    (project / "sub/AGENTS.md").write_text("Be careful.\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "second")
    return project


def play(scene: str, target: str, at: int, origin: Path, base: Path) -> tuple[list[str], list[str], bool]:
    """Return the events, where the secret was found, and True if something of the person was changed."""
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(origin, base / "project", symlinks=True)
    (base / "temp").mkdir()

    def act() -> tuple[list[str], list[str], bool]:
        os.environ["NEXUS_HOME"] = str(base / "nexus")
        is_inside = not target.startswith("worktree/")
        world = World(base, base / "project" / target if is_inside else base / target, at)
        if is_inside:
            world.prepare()
        sys.addaudithook(world.see)
        try:
            told = SCENES[scene][0](world)
        except (NexusError, OSError) as error:
            told = [str(error), str(getattr(error, "message", "")), str(getattr(error, "why", ""))]
        person = tree(world.person)
        if world.target.is_symlink():
            world.exchange()
        found = [f"told: {one}" for one in told if SECRET in one or digest_of_secret(world) in one]
        found += [str(path) for place in (base / "nexus", base / "project") for path in find_secret(place)]
        return world.events, found, person != world.before

    return in_user("", act)


def digest_of_secret(world: World) -> str:
    return hashlib.sha256(f"{SECRET} {world.target.name}\n".encode()).hexdigest()


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            is_file = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = path.lstat().st_mode, path.read_bytes() if is_file else b""
    return found


def find_secret(place: Path) -> Iterator[Path]:
    """Yield the files below a folder that hold the secret, also as an object of git; no link is followed."""
    for folder, _, names in os.walk(place):
        for path in (Path(folder, name) for name in names):
            if path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            with suppress(zlib.error):
                data += zlib.decompress(data)
            if SECRET.encode() in data:
                yield path
        if "HEAD" in names and any(Path(folder, "objects/pack").glob("*.pack")):
            query = ["git", "--git-dir", folder, "cat-file", "--batch-all-objects", "--batch"]
            if SECRET.encode() in subprocess.run(query, capture_output=True).stdout:
                yield Path(folder)


@pytest.fixture(scope="module")
def events_of(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """The events of a scene in which nothing is exchanged."""

    @cache
    def find(scene: str) -> list[str]:
        base = Path(os.path.realpath(tmp_path_factory.mktemp("plain"))) / "world"
        events, found, _ = play(scene, SCENES[scene][1][0], -1, origin, base)
        assert len(events) > 5 and not found
        return events

    return find


@pytest.mark.skipif(not hasattr(_libc, "renameat2"), reason="needs renameat2")
@pytest.mark.parametrize(("scene", "target"), [row if row in IN_GATE else variant(row) for row in ROWS])
def test_a_folder_that_becomes_a_link_leads_to_nothing(
    scene: str, target: str, events_of: Callable[[str], list[str]], origin: Path, tmp_path: Path
) -> None:
    events, targets = events_of(scene), SCENES[scene][1]
    base = Path(os.path.realpath(tmp_path)) / "world"
    # Just before the product opens or lists what is exchanged, and elsewhere for each.
    named = [at for at, name in enumerate(events) if name == Path(target).name]
    runs = [*named[:1], len(events) * targets.index(target) // len(targets)]
    for at in dict.fromkeys(range(len(events)) if SEARCHES else runs):
        _, found, is_changed = play(scene, target, at, origin, base)
        assert not found, f"{target} exchanged before event {at} of {len(events)}"
        assert not is_changed, f"{target} exchanged before event {at} of {len(events)}: something outside was changed"


def play_with_an_answer_of_git(origin: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], bool]:
    """Exchange git's folder for a link to that of the person's own clone, only while what git said is resolved.

    Return where the secret was found, and True if the clone was changed.
    """
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(origin, base / "project", symlinks=True)

    def act() -> tuple[list[str], bool]:
        os.environ["NEXUS_HOME"] = str(base / "nexus")
        world, state = World(base, base / "project/.git"), "before"
        git(base, "clone", "-q", "project", "person")
        (world.person / ".git/id_rsa").write_text(SECRET)
        (base / "link").symlink_to(world.person / ".git")
        before, communicate, realpath = tree(world.person), subprocess.Popen.communicate, os.path.realpath

        def see_end(run: subprocess.Popen[bytes], *given: Any, **options: Any) -> tuple[bytes, bytes]:
            nonlocal state
            output = communicate(run, *given, **options)
            state = "said" if state == "before" and "HEAD^{commit}" in run.args else state  # type: ignore[operator]
            return output

        def resolve(path: Any, **options: Any) -> Any:
            nonlocal state
            if state != "said" or str(path) != str(world.target):
                return realpath(path, **options)
            state = "exchanged"
            world.exchange()
            found = realpath(path, **options)
            world.exchange()
            return found

        monkeypatch.setattr(subprocess.Popen, "communicate", see_end)
        monkeypatch.setattr(os.path, "realpath", resolve)
        with suppress(NexusError, OSError):
            make_worktree(world)
        assert state == "exchanged"
        return [str(path) for path in find_secret(base / "nexus")], tree(world.person) != before

    return in_user("", act)


@pytest.mark.skipif(not hasattr(_libc, "renameat2"), reason="needs renameat2")
def test_the_repository_that_git_names_is_that_of_the_project(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Path(os.path.realpath(tmp_path)) / "world"
    found, is_changed = play_with_an_answer_of_git(origin, base, monkeypatch)
    assert not found and not is_changed


@pytest.mark.matrix
@pytest.mark.skipif(not hasattr(_libc, "renameat2"), reason="needs renameat2")
@pytest.mark.parametrize("scene", ["undo", "a worktree is made"])
def test_a_job_that_exchanges_folders_all_the_time_gets_nothing(scene: str, origin: Path, tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path)) / "world"
    for target in some(SCENES[scene][1], 4):
        found = play_with_a_job(scene, target, origin, base)
        assert not found, target


def play_with_a_job(scene: str, target: str, origin: Path, base: Path) -> list[str]:
    """Return where the secret was found after a run beside a thread that exchanges `target` without a pause."""
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(origin, base / "project", symlinks=True)

    def act() -> list[str]:
        os.environ["NEXUS_HOME"] = str(base / "nexus")
        world, told, is_over = World(base, base / "project" / target), [""], threading.Event()
        world.prepare()

        def exchange() -> None:
            while not is_over.wait(0.0005):
                world.exchange()

        job = threading.Thread(target=exchange)
        job.start()
        try:
            told = SCENES[scene][0](world)
        except (NexusError, OSError) as error:
            told = [str(error), str(getattr(error, "message", "")), str(getattr(error, "why", ""))]
        is_over.set()
        job.join()
        if world.target.is_symlink():
            world.exchange()
        found = [f"told: {one}" for one in told if SECRET in one]
        return found + [str(path) for place in (base / "nexus", base / "project") for path in find_secret(place)]

    return in_user("", act)
