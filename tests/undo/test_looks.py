"""What a command changes or destroys can be had back: each former byte is in the store, or git has it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project_files import write_files

from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import ABSENT, FILE, FOLDER, LINK, PIPE, FileState
from nexus_cli.tree.read_state import MAX_COPIED, StateReader
from nexus_cli.undo import project_look
from nexus_cli.undo.coverage import PROJECT_ITSELF, REBUILT
from nexus_cli.undo.follow_changes import KILLED_MEANWHILE, TOO_MANY, ChangeJournal, StepOwner
from nexus_cli.undo.follow_repositories import NO_REPOSITORY
from nexus_cli.undo.journal import read_begun, read_steps
from nexus_cli.undo.project_look import UNCOPIED, UNREAD
from nexus_cli.undo.records import Step

OWNER = StepOwner("session", 3)
KINDS = {stat.S_IFREG: FILE, stat.S_IFLNK: LINK, stat.S_IFDIR: FOLDER, stat.S_IFIFO: PIPE}
State = tuple[str, int, bytes]
"""Kind, mode and bytes of a path."""


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    quiet = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "advice.detachedHead=false")
    run = subprocess.run(["git", "-C", str(folder), *quiet, *arguments], input=stdin, capture_output=True, check=True)
    return run.stdout


def read_tree(folder: Path) -> dict[str, State]:
    """Return all that is below a folder, without its repositories."""
    found: dict[str, State] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*names, *folders):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            kind = KINDS[stat.S_IFMT(mode)]
            if name == ".git":
                continue
            content = (
                Path(path).read_bytes() if kind == FILE else os.fsencode(os.readlink(path)) if kind == LINK else b""
            )
            found[os.path.relpath(path, folder)] = (kind, 0 if kind == LINK else stat.S_IMODE(mode), content)
    return found


def bytes_of(data: Path, root: Path, state: FileState) -> State:
    """Return a recorded state with its bytes, from where the record says that they are."""
    if state.kind != FILE:
        return (state.kind, state.mode, os.fsencode(state.target))
    assert state.content, "its bytes are kept nowhere"
    if state.content.startswith("git:"):
        return (FILE, state.mode, git(root, "cat-file", "blob", state.content.removeprefix("git:")))
    with ByteStore(data).open(state.content) as file:
        content = file.read()
    assert len(content) == state.size
    return (FILE, state.mode, content)


def check_step(data: Path, root: Path, step: Step, before: dict[str, State], after: dict[str, State]) -> None:
    """Check that a step names exactly the paths that differ, with the states before and after."""
    assert step.unfollowed in ("", KILLED_MEANWHILE)
    differ = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {change.path for change in step.changes} == differ
    missing = (ABSENT, 0, b"")
    for change in step.changes:
        assert bytes_of(data, root, change.before) == before.get(change.path, missing)
        assert bytes_of(data, root, change.after) == after.get(change.path, missing)


@contextmanager
def followed(journal: ChangeJournal, root: Path) -> Iterator[None]:
    begun = journal.begin(OWNER, "bash", "c1", root)
    yield
    journal.end(begun)


def run_followed(
    data: Path, root: Path, command: str, most_file: int = MAX_COPIED
) -> tuple[Step | None, dict[str, State], dict[str, State]]:
    """Run a shell command between two looks; return its step, and the trees before and after."""
    journal, before = ChangeJournal(data, most_file=most_file), read_tree(root)
    with followed(journal, root):
        subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, check=False, timeout=20)
    journal.close()
    assert not read_begun(data, "session")
    steps = read_steps(data, "session")
    return (steps[-1] if steps else None), before, read_tree(root)


def repository(root: Path) -> Path:
    """Make a repository with tracked, changed, untracked and ignored files."""
    git(root, "init", "-q")
    write_files(root, {"src/a.py": "a = 1\n", "src/b.py": "b = 1\n", "run.sh": "#!/bin/sh\n"})
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/a.py")
    (root / ".gitignore").write_text(".env\n*.db\ncache/\nnode_modules/\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "src/b.py").write_text("b = 2  # not committed\n")
    (root / "notes.txt").write_text("only copy\n")
    (root / ".env").write_text("KEY=secret\n")
    (root / ".env").chmod(0o600)
    (root / "data.db").write_bytes(b"\0" * 1000)
    write_files(root, {"cache/precious.txt": "kept in an ignored folder\n"})
    return root


def places_of(tmp_path: Path) -> tuple[Path, Path]:
    (root := tmp_path / "project").mkdir()
    return root, tmp_path / "data"


@pytest.mark.matrix
def test_git_is_not_searched_for_again_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    journal = ChangeJournal(data)
    with followed(journal, repository(root)):
        pass
    searches: list[str] = []
    monkeypatch.setattr(project_look, "find_program", lambda name, _: searches.append(name))
    with followed(journal, root):
        (root / "src/a.py").write_text("a = 2\n")
    journal.close()
    assert [change.path for change in read_steps(data, "session")[-1].changes] == ["src/a.py"]
    assert searches == []


@pytest.mark.matrix
def test_the_repository_is_as_it_was(tmp_path: Path) -> None:
    """No file, reference, entry of the index or run of a hook is left by a look."""
    root, data = places_of(tmp_path)
    repository(root)
    ran = tmp_path / "ran"
    for hook in ("post-index-change", "pre-commit", "reference-transaction"):
        (root / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (root / ".git/hooks" / hook).chmod(0o755)
    git(root, "config", "core.fsmonitor", f"touch {ran}; false")
    git(root, "config", "filter.x.clean", f"touch {ran}; cat")
    (root / ".gitattributes").write_text("*.py filter=x\n")

    def state() -> dict[str, tuple[int, bytes]]:
        files = [path for path in (root / ".git").rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    earlier = state()
    step, before, after = run_followed(data, root, "echo changed > src/a.py")
    assert state() == earlier and not ran.exists()
    assert step is not None
    check_step(data, root, step, before, after)


@pytest.mark.matrix
def test_a_filter_that_the_command_adds_is_not_run(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    command = (
        f"git config filter.x.clean 'touch {tmp_path}/ran; cat'; echo '* filter=x' > .gitattributes; touch src/a.py"
    )
    step, before, after = run_followed(data, root, f"{command}; echo 'b = 3' > src/b.py")
    assert step is not None and not (tmp_path / "ran").exists()
    check_step(data, root, step, before, after)


def test_a_repository_that_the_command_removes_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    monkeypatch.setattr("nexus_cli.undo.repository_copy.SECONDS", -1.0)
    step, before, _ = run_followed(data, root, "rm -rf .git src; echo new > run.sh; echo x > made")
    assert step is not None and step.unfollowed == NO_REPOSITORY
    assert {one.path for one in step.changes} == {".git", "src", "src/a.py", "src/b.py", "run.sh", "made"}
    own = next(one for one in step.changes if one.path == "src/b.py")
    assert bytes_of(data, root, own.before) == before["src/b.py"]
    step, before, after = run_followed(data, root, "rm run.sh made; echo 2 > .env")
    assert step is not None
    check_step(data, root, step, before, after)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["blob", "commit"])
def test_an_index_that_a_command_wrote_gives_no_file_other_bytes(tmp_path: Path, kind: str) -> None:
    root, data = places_of(tmp_path)
    for name in (*map(str, range(40)), "mine"):
        (root / name).write_text(f"{name}\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    other = git(root, "rev-parse", "HEAD" if kind == "commit" else ":39").decode().strip()
    (root / "mine").write_bytes(b"x" * int(git(root, "cat-file", "-s", other)))
    about = (root / "mine").stat()
    index = bytearray((root / ".git/index").read_bytes())
    at = index.index(b"mine\0") - 62
    times = [part for one in (about.st_ctime_ns, about.st_mtime_ns) for part in divmod(one, 10**9)]
    fields = (*times, about.st_dev & 0xFFFFFFFF, about.st_ino & 0xFFFFFFFF)
    struct.pack_into(">6I", index, at, *fields)
    struct.pack_into(">I", index, at + 36, about.st_size)
    index[at + 40 : at + 60] = bytes.fromhex(other)
    (root / ".git/index").write_bytes(index[:-20] + hashlib.sha1(index[:-20]).digest())
    os.utime(root / ".git/index", (about.st_mtime + 10, about.st_mtime + 10))
    step, before, after = run_followed(data, root, "rm mine 1")
    assert step is not None
    check_step(data, root, step, before, after)


@pytest.mark.matrix
def test_files_that_git_is_told_to_overlook_are_followed(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    git(root, "update-index", "--assume-unchanged", "src/a.py")
    git(root, "update-index", "--skip-worktree", "run.sh")
    (root / "run.sh").write_text("mine alone\n")
    step, before, after = run_followed(data, root, "echo x > src/a.py; rm run.sh")
    assert step is not None
    check_step(data, root, step, before, after)


@pytest.mark.matrix
def test_modes_times_and_equal_sizes_do_not_hide_a_change(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    command = (
        "chmod 600 src/a.py; cp -p run.sh /tmp/$$.t; echo '#!/bin/XX' > run.sh; touch -r /tmp/$$.t run.sh; rm /tmp/$$.t"
    )
    step, before, after = run_followed(data, root, command)
    assert step is not None and {one.path for one in step.changes} == {"src/a.py", "run.sh"}
    check_step(data, root, step, before, after)


@pytest.mark.matrix
@pytest.mark.parametrize("above", ["", "git init -q; echo api/ > .gitignore"])
def test_what_a_repository_inside_tracks_is_followed_where_a_tool_may_fill_it(tmp_path: Path, above: str) -> None:
    root, data = places_of(tmp_path)
    (root / "api/vendor").mkdir(parents=True)
    (root / "api/web/vendor").mkdir(parents=True)
    for name in ("api/composer.lock", "api/vendor/mine.php", "api/web/composer.lock", "api/web/vendor/theirs.php"):
        (root / name).write_text("x\n")
    (root / "api/.gitignore").write_text("/web/vendor\n")
    subprocess.run(["sh", "-ec", above], cwd=root, check=True)
    git(root / "api", "init", "-q")
    git(root / "api", "add", "-A")
    git(root / "api", "commit", "-qm", "first")
    (root / "api/vendor/mine.php").write_text("not committed\n")
    step, _, _ = run_followed(data, root, "rm -rf api/vendor api/web/vendor")
    assert step is not None and {one.path for one in step.changes} == {"api/vendor", "api/vendor/mine.php"}
    assert dict(step.not_covered) == {"api/web/vendor": REBUILT}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "is_followed"), [("src", True), (".venv", False), ("env3", False), ("build-x", False)]
)
def test_a_file_alone_does_not_mark_a_folder_where_no_git_ignores_it(
    tmp_path: Path, name: str, is_followed: bool
) -> None:
    root, data = places_of(tmp_path)
    (root / name).mkdir()
    (root / name / "pyvenv.cfg").touch()
    (root / name / "CACHEDIR.TAG").touch()
    (root / name / "a").write_text("mine\n")
    step, _, _ = run_followed(data, root, f"rm -rf {name}")
    assert step is not None and bool(step.changes) == is_followed and bool(step.not_covered) != is_followed


def test_repositories_are_not_asked_for_ever_what_they_ignore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    write_files(root, {"api/vendor/a": "a\n"})
    (root / "api/composer.lock").touch()
    git(root / "api", "init", "-q")
    monkeypatch.setattr(project_look, "_ASKED_SECONDS", -1.0)
    step, _, _ = run_followed(data, root, "rm -rf api/vendor")
    assert step is not None and dict(step.not_covered) == {"api/vendor": REBUILT}


@pytest.mark.matrix
def test_what_git_ignores_is_no_work_beside_a_submodule_that_changed(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    (other := tmp_path / "other").mkdir()
    repository(other)
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    journal = ChangeJournal(data)
    begun = journal.begin(OWNER, "bash", "c1", root)
    (root / "sub/build").mkdir()
    (root / "sub/build/hand").touch()
    git(root / "sub", "add", "build/hand")
    for name in ("cache/new", "sub/new", "sub/cache-new", "sub/x.db", "sub/build/hand", "sub/build/made"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x\n")
    assert sorted(journal.end(begun)) == ["sub/build/hand", "sub/cache-new", "sub/new"]


def test_a_folder_that_fails_to_be_listed_is_named_and_what_is_in_it_is_not_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, data = places_of(tmp_path)
    write_files(root, {"far/mine": "mine\n"})
    journal, listed = ChangeJournal(data), os.scandir

    def fail(place: int) -> object:
        if os.fstat(place).st_ino == (root / "far").stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        return listed(place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        begun = journal.begin(OWNER, "bash", "c1", root)
    assert begun.not_covered == {"far": UNREAD}
    (root / "new").write_text("x\n")
    journal.end(begun)
    assert [one.path for one in read_steps(data, "session")[0].changes] == ["new"]


@pytest.mark.matrix
def test_loops_pipes_and_closed_folders_stop_nothing(tmp_path: Path) -> None:
    for kind in ("git", "plain"):
        (root := tmp_path / kind).mkdir()
        if kind == "git":
            repository(root)
        (root / "loop").symlink_to("loop")
        (root / "up").symlink_to("..")
        (root / "away").symlink_to("/etc")
        os.mkfifo(root / "pipe")
        write_files(root, {"closed/x.txt": "x"})
        (root / "closed").chmod(0o500)
        step, before, after = run_followed(tmp_path / "data", root, "rm -f loop up away pipe; echo y > y.txt")
        assert step is not None
        assert {one.path for one in step.changes} == {"loop", "up", "away", "pipe", "y.txt"}
        (root / "closed").chmod(0o700)
        check_step(tmp_path / "data", root, step, before, after)


@pytest.mark.matrix
def test_another_file_system_than_the_data(tmp_path: Path) -> None:
    """No hard link is possible there: what is too large to be copied is not kept."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, data = Path(folder), tmp_path / "data"
        if os.stat(root).st_dev == os.stat(tmp_path).st_dev:
            return
        repository(root)
        (root / "big.bin").write_bytes(os.urandom(6_000_000))
        with (root / "huge.bin").open("wb") as file:
            file.truncate(10_000_001)
        step, before, after = run_followed(data, root, "rm -rf big.bin huge.bin notes.txt .env", 10_000_000)
        assert step is not None
        kept = {one.path: one.before.content[:7] for one in step.changes}
        assert kept == {"big.bin": "sha256:", "huge.bin": "", "notes.txt": "sha256:", ".env": "sha256:"}
        del before["huge.bin"]
        check_step(
            data, root, replace(step, changes=tuple(one for one in step.changes if one.before.content)), before, after
        )


@pytest.mark.matrix
def test_files_are_linked_once_the_time_to_read_them_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    (root / "quiet.txt").write_text("stays\n")
    monkeypatch.setattr(StateReader, "is_late", True)
    journal = ChangeJournal(data)
    before = read_tree(root)
    with followed(journal, root):
        subprocess.run(["rm", "-rf", "notes.txt", ".env"], cwd=root, check=True)
        monkeypatch.undo()
    (step,) = read_steps(data, "session")
    assert {one.path: one.before.content[:5] for one in step.changes} == {"notes.txt": "link:", ".env": "link:"}
    check_step(data, root, step, before, read_tree(root))


@pytest.mark.matrix
def test_a_walk_that_takes_too_long_is_told_and_takes_no_path_for_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, data = places_of(tmp_path)
    repository(root)
    before = read_tree(root)
    monkeypatch.setattr(project_look, "WALK_SECONDS", -1.0)
    with followed(ChangeJournal(data), root):
        (root / "run.sh").unlink()
        (root / "made").touch()
    (step,) = read_steps(data, "session")
    assert step.not_covered == ((PROJECT_ITSELF, TOO_MANY),) and [one.path for one in step.changes] == ["run.sh"]
    assert bytes_of(data, root, step.changes[0].before) == before["run.sh"]


@pytest.mark.matrix
def test_what_was_linked_in_one_look_and_copied_in_the_next_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look has the time to read a few of many files, and no look takes what it reads for changed."""
    root, data = places_of(tmp_path)
    for number in range(200):
        (root / f"f{number}").write_text(f"{number}\n")
    reads, journal = iter(range(10**6)), ChangeJournal(data)
    monkeypatch.setattr(StateReader, "is_late", property(lambda _: next(reads) % 7 != 0))
    for command in ("true", "echo 1 > made", "true", "echo 2 > f100", "true"):
        with followed(journal, root):
            subprocess.run(["bash", "-c", command], cwd=root, check=True)
    steps = [step for step in read_steps(data, "session") if step.changes]
    assert [[one.path for one in step.changes] for step in steps] == [["made"], ["f100"]]


def test_a_walk_that_takes_long_leaves_the_time_to_keep_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    (root / "f").write_text("old\n")
    clock, note = [0.0], project_look._Walk.note_pairs

    def slowly(self: project_look._Walk) -> None:
        clock[0] += 100.0
        note(self)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(project_look._Walk, "note_pairs", slowly)
    begun = ChangeJournal(data).begin(OWNER, "bash", "c1", root)
    assert begun.look is not None and begun.look.states["f"].state.content.startswith("sha256:")


def test_a_file_that_there_was_no_time_for_is_named_and_kept_by_a_later_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither copied nor linked, and not opened either."""
    root, data = places_of(tmp_path)
    (root / "f").write_text("old\n")
    journal = ChangeJournal(data)
    with monkeypatch.context() as patch:
        for name in ("_end", "_last_link"):
            patch.setattr(StateReader, name, property(lambda _: 0.0, lambda *_: None), raising=False)
        patch.setattr(StateReader, "_keep", lambda *_: pytest.fail("opened"))
        begun = journal.begin(OWNER, "bash", "c1", root)
        assert begun.not_covered == {"f": UNCOPIED}
        journal.end(begun)
    begun = journal.begin(OWNER, "bash", "c1", root)
    assert begun.look is not None and begun.look.states["f"].state.content.startswith("sha256:")
    assert not begun.not_covered


def test_hard_links_are_known_as_the_same_file_until_one_is_left(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    for name in ("one", "b", "c"):
        (root / name).write_text(f"{name}\n")
    os.link(root / "b", root / "a")
    pairs, journal = [], ChangeJournal(data)
    for name in ("", "c", "a"):
        (root / name).unlink() if name else None
        with followed(journal, root):
            pairs.append({path: one.state.pair for path, one in journal._projects[root]._last.states.items()})
    first = {"one": "", "a": "a", "b": "a"}
    assert pairs == [first | {"c": ""}, first, {"one": "", "b": ""}]


@pytest.mark.matrix
def test_what_git_tracks_is_named_wherever_it_is(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    for name in ("vendor/own.c", "build/tool.sh"):
        (root / name).parent.mkdir()
        (root / name).write_text("x\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    (root / "vendor/made.o").write_text("o\n")
    journal = ChangeJournal(data)
    begun = journal.begin(OWNER, "bash", "c1", root)
    subprocess.run("rm -r vendor; echo y > build/tool.sh; echo n > build/out", shell=True, cwd=root, check=True)
    assert journal.end(begun) == ["build/tool.sh", "vendor/own.c"]


@pytest.mark.matrix
def test_a_growing_file(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    git(root, "init", "-q")
    writer = subprocess.Popen(["bash", "-c", "while :; do echo line; done > grow.log"], cwd=root)
    try:
        while not (root / "grow.log").exists():
            pass
        journal = ChangeJournal(data)
        with followed(journal, root):
            size = (root / "grow.log").stat().st_size
            while (root / "grow.log").stat().st_size == size:
                pass
    finally:
        writer.kill()
        writer.wait()
    (step,) = read_steps(data, "session")
    (change,) = step.changes
    assert change.before != change.after
    if change.before.content.startswith("sha256:"):
        with ByteStore(data).open(change.before.content) as file:
            assert file.read()[:4] == b"line"


def test_home_is_never_looked_at(tmp_path: Path, monkeypatch: object) -> None:
    home = Path(os.path.expanduser("~")).resolve()
    journal = ChangeJournal(tmp_path / "data")
    journal.end(journal.begin(OWNER, "bash", "", home))
    (step,) = read_steps(tmp_path / "data", "session")
    ((path, why),) = step.not_covered
    assert path == PROJECT_ITSELF and "home folder" in why and not step.changes


# -- random trees and commands -----------------------------------------------------------------------------------------

PATHS = st.sampled_from(["a", "b.txt", "d/a", "d/b", "d/e/f", "x.log", "ign/x", "g\u00e9", "l"])
CONTENTS = st.sampled_from(["", "1", "2", "one\n", "two\n", "crlf\r\n"])
ACTIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("remove"), PATHS, st.just("")),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("mode"), PATHS, st.sampled_from(["600", "644", "755", "664"])),
    st.tuples(st.just("link"), PATHS, st.sampled_from(["a", "/etc", "nowhere"])),
    st.tuples(st.just("ignore"), st.just(""), st.sampled_from(["*.log\nign/\n", "", "b.txt\n"])),
    st.tuples(
        st.just("git"),
        st.just(""),
        st.sampled_from(["add -A", "commit -qam x", "stash -q", "clean -fdxq", "reset -q --hard"]),
    ),
)


def act(root: Path, action: tuple[str, str, str]) -> None:
    kind, path, value = action
    place = root / path
    try:
        if kind == "write":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(value, newline="")
        elif kind == "remove":
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        elif kind == "move":
            place.rename(root / value)
        elif kind == "mode":
            place.chmod(int(value, 8), follow_symlinks=not place.is_symlink())
        elif kind == "link":
            place.symlink_to(value)
        elif kind == "ignore":
            (root / ".gitignore").write_text(value)
        elif (root / ".git").exists():
            git(root, *value.split())
    except (OSError, NotImplementedError, subprocess.CalledProcessError):
        pass


@pytest.mark.matrix
@given(
    st.booleans(),
    st.lists(ACTIONS, max_size=10),
    st.lists(st.lists(ACTIONS, min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_each_former_byte_can_be_had_back(
    has_git: bool, first: list[tuple[str, str, str]], commands: list[list[tuple[str, str, str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, data = places_of(Path(os.path.realpath(folder)))
        if has_git:
            git(root, "init", "-q")
        for action in first:
            act(root, action)
        journal = ChangeJournal(data)
        for command in commands:
            before, known = read_tree(root), len(read_steps(data, "session"))
            with followed(journal, root):
                for action in command:
                    act(root, action)
            after, steps = read_tree(root), read_steps(data, "session")[known:]
            if before == after:
                assert not steps or not steps[0].changes
            else:
                check_step(data, root, steps[0], before, after)
