"""What changed while a command ran, and nothing lays to it, may be the person's: an undo leaves it, unless told to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from undo.world import World

from nexus_cli.tree.file_state import FileState
from nexus_cli.undo import unsure_changes
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.journal import journal_path, read_steps
from nexus_cli.undo.plan_restore import UNSURE
from nexus_cli.undo.records import FileChange, Step, fields_of, parse_step
from nexus_cli.undo.unsure_changes import mark_unsure

OLD, NEW, NOTHING = FileState("file", 0o644, "sha256:1"), FileState("file", 0o644, "sha256:2"), FileState("absent")


def is_unsure(path: str, command: str, output: str = "", *, is_new: bool = False) -> bool:
    change = FileChange(path, NOTHING if is_new else OLD, NEW)
    (found,) = mark_unsure([change], [path], command, output, "/p")
    return found.is_unsure


@pytest.mark.parametrize(
    ("path", "command", "output", "is_new"),
    [
        ("src/a.py", "sed -i s/a/b/ src/a.py", "", False),
        ("src/a.py", "cd src && sed -i s/a/b/ a.py", "", False),
        ("src/deep/a.py", "black src/", "", False),
        ("src/a.py", "black .", "", False),
        ("a/b/c.txt", "rm -f a/*/c.txt", "", False),
        ("a/b/c.txt", "rm -f *.txt", "", False),
        ("a.py", "rm /p/a.py", "", False),
        ("deep/a.py", "rm -rf ../p", "", False),
        ("deep/a.py", "rm -rf /p/", "", False),
        ("deep/a.py", "cd .. && rm p/x ../p/deep/a.py", "", False),
        ("out.txt", "sleep 4; echo x > out.txt", "", True),
        ("out.txt", "pytest -q >out.txt 2>&1", "", True),
        ("my notes.txt", "./build 'my notes.txt'", "", True),
        ("src/a.py", "./build.sh", "wrote /p/src/a.py.\n", False),
        ("src/a.py", "./build.sh", "  reformatted ../src/a.py (3 lines)\n", False),
        ("out/app", "make", "cc -o out/app app.c\n", True),
        ("src/a.o", "make", "", True),
        ("tests/__snapshots__/a.ambr", "pytest tests", "", True),
        ("package.json", "CI=1 npm install left-pad", "", False),
        ("package-lock.json", "npm install left-pad", "", False),
        ("Cargo.lock", "cargo build", "", False),
        ("src/a.py", "git -C . checkout main", "", False),
        ("src/a.py", "git bisect start HEAD v1 && git bisect run make", "", False),
        ("src/a.py", "gh pr checkout 12", "", False),
        ("src/a.py", "tar xf a.tar", "", True),
        ("src/a.py", "npm run format src/a.py", "", False),
        ("src/a.py", "ruff check --fix src", "", False),
    ],
)
def test_what_the_command_or_its_output_names_is_the_commands(
    path: str, command: str, output: str, is_new: bool
) -> None:
    assert not is_unsure(path, command, output, is_new=is_new)


@pytest.mark.parametrize(
    ("path", "command", "output", "is_new"),
    [
        ("mine.txt", "sleep 4", "", False),
        ("new.txt", "sleep 4", "", True),
        ("tests/test_a.py", "pytest tests/test_a.py", "tests/test_a.py ..F\n", False),
        ("tests/test_a.py", "cd tests && python -m pytest -q", "test_a.py ..\n", False),
        ("tests/test_a.py", "timeout 60 uv run pytest tests", "", False),
        ("test/a.js", "npm test", "", False),
        ("app.c", "make", "cc -o out/app app.c\n", False),
        ("mine.txt", "make test; ./other.sh", "done\n", False),
        ("other/__init__.py", "touch pkg/__init__.py", "", True),
        ("package.json", "sleep 4", "", False),
        ("gen.py", "python gen.py", "", False),
        ("src/a.py", "git push", "", False),
        ("src/a.py", "ls ..; ./x ..", "", False),
    ],
)
def test_what_nothing_names_is_perhaps_the_persons(path: str, command: str, output: str, is_new: bool) -> None:
    assert is_unsure(path, command, output, is_new=is_new)


def test_a_folder_is_the_persons_with_all_that_came_or_went_in_it() -> None:
    folder = FileState("folder", 0o755)
    changes = [
        *(FileChange(path, folder, NOTHING) for path in ("gone", "gone/sub", "both")),
        *(FileChange(path, OLD, NOTHING) for path in ("gone/sub/mine.txt", "both/mine.txt", "both/named.txt")),
    ]
    found = mark_unsure(changes, [one.path for one in changes[3:]], "./run both/named.txt", "", "/p")
    assert {one.path for one in found if one.is_unsure} == {"gone", "gone/sub", "gone/sub/mine.txt", "both/mine.txt"}


def test_two_hundred_outputs_are_the_commands_and_what_the_person_saved_beside_them_is_not() -> None:
    outputs = [FileChange(f"out/{number}.html", NOTHING, NEW) for number in range(200)]
    mine, ignored = FileChange("mine.txt", OLD, NEW), FileChange(".env", OLD, NEW)
    names = [one.path for one in [*outputs, mine]]
    found = mark_unsure([*outputs, mine, ignored], names, "make", "", "/p")
    assert [one.path for one in found if one.is_unsure] == ["mine.txt"]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command have run for long."""
    monkeypatch.setattr(unsure_changes, "SECONDS", -1.0)


def run_command(
    world: World, command: str, *writes: tuple[str, str], work: Callable[[], object] = lambda: None
) -> None:
    """A turn whose command runs while these files are written and `work` is done."""
    world.turns += 1
    journal = ChangeJournal(world.data)
    begun = journal.begin(StepOwner(world.session, world.turns), f"bash {command}", "c", world.project)
    for name, text in writes:
        world.write(name, text)
    work()
    journal.end(begun, command)
    journal.close()


def test_a_person_saves_nothing_while_a_short_command_runs(world: World) -> None:
    run_command(world, "true", ("mine.txt", "mine\n"))
    assert world.undo()["removed"] == ["mine.txt"]


@pytest.mark.usefixtures("slow")
def test_an_undo_leaves_what_is_perhaps_the_persons_and_takes_it_when_told(world: World) -> None:
    world.write("mine.txt", "old\n")
    world.write("its.txt", "old\n")
    run_command(world, "./gen its.txt", ("mine.txt", "mine\n"), ("new.txt", "new\n"), ("its.txt", "its\n"))
    report = world.undo()
    assert report["restored"] == ["its.txt"] and not report["removed"]
    assert [(one["path"], one["why"]) for one in report["kept"]] == [("mine.txt", UNSURE), ("new.txt", UNSURE)]
    assert world.path("mine.txt").read_text() == "mine\n" and world.path("new.txt").exists()
    report = world.undo("mine.txt")
    assert report["restored"] == ["mine.txt"] and world.path("mine.txt").read_text() == "old\n"
    report = world.undo(takes_unsure=True)
    assert report["removed"] == ["new.txt"] and not report["kept"]


@pytest.mark.matrix
@pytest.mark.usefixtures("slow")
def test_redo_brings_back_single_paths_also_after_an_undo_of_all(world: World) -> None:
    world.write("mine.txt", "old\n")
    run_command(world, "sleep 4", ("mine.txt", "mine\n"), ("new.txt", "new\n"))
    run_command(world, "echo > its.txt", ("its.txt", "its\n"))
    assert world.undo(turn=2)["removed"] == ["its.txt"]
    report = world.undo(takes_unsure=True)
    assert (report["restored"], report["removed"]) == (["mine.txt"], ["new.txt"])
    assert world.redo("mine.txt")["restored"] == ["mine.txt"] and world.path("mine.txt").read_text() == "mine\n"
    assert not world.path("new.txt").exists() and not world.redo("mine.txt")["restored"]
    assert world.redo()["restored"] == ["new.txt"] and world.path("mine.txt").read_text() == "mine\n"
    assert world.redo()["restored"] == ["its.txt"]
    assert world.undo(turn=1, takes_unsure=True)["removed"] == ["new.txt"]
    assert world.path("mine.txt").read_text() == "old\n"


@pytest.mark.matrix
@pytest.mark.usefixtures("slow")
def test_a_text_in_which_both_wrote_in_one_turn_keeps_the_part_of_the_person(world: World) -> None:
    lines = [f"{number}\n" for number in range(9)]
    world.write("both.txt", "".join(lines))
    lines[1] = "agent\n"
    run_command(world, "sed -i both.txt", ("both.txt", "".join(lines)))
    world.turns -= 1
    lines[7] = "person\n"
    run_command(world, "sleep 4", ("both.txt", "".join(lines)))
    report = world.undo()
    lines[1] = "1\n"
    assert report["restored"] == ["both.txt"] and [one["why"] for one in report["kept"]] == [UNSURE]
    assert world.path("both.txt").read_text() == "".join(lines)


@pytest.mark.matrix
@pytest.mark.usefixtures("slow")
def test_an_undo_of_a_turn_of_unsure_changes_alone_takes_back_no_turn_before(world: World) -> None:
    run_command(world, "touch first", ("first", "1\n"))
    run_command(world, "sleep 4", ("mine.txt", "mine\n"))
    report = world.undo()
    assert not report["removed"] and [one["path"] for one in report["kept"]] == ["mine.txt"]
    assert world.undo(turn=1)["removed"] == ["first"] and world.path("mine.txt").exists()
    run_command(world, "touch second", ("second", "2\n"), ("yours.txt", "x\n"))
    assert world.undo()["removed"] == ["second"]
    assert not world.undo()["removed"] and world.undo(takes_unsure=True)["removed"] == ["yours.txt"]


@pytest.mark.matrix
@pytest.mark.parametrize("first", [None, "0\n"], ids=["new", "changed"])
def test_a_path_that_a_job_went_on_writing_is_taken_back_as_a_whole_or_not_at_all(
    world: World, first: str | None
) -> None:
    world.turns = 2
    log = world.path("log.txt")
    texts = [first, f"{first or ''}1\n", f"{first or ''}1\n2\n"]
    old, begun, ended = (NOTHING if text is None else world.state(world.write("log.txt", text)) for text in texts)
    other = world.state(world.write("other.txt", "x\n"))
    world.turns = 1
    world.record((FileChange("before.txt", NOTHING, world.state(world.write("before.txt", "x\n"))),))
    world.turns = 2
    world.record((FileChange("log.txt", old, begun), FileChange("other.txt", NOTHING, other)))
    world.record((FileChange("log.txt", begun, ended),), is_unsure=True)
    report = world.undo()
    assert report["removed"] == ["other.txt"]
    assert [(one["path"], one["why"], one["aside"]) for one in report["kept"]] == [("log.txt", UNSURE, None)]
    assert world.undo(dry_run=True)["removed"] == ["before.txt"]
    report = world.undo(takes_unsure=True)
    assert (report["turn"], report["kept"]) == (2, [])
    assert log.read_text() == first if first else not log.exists()


def test_a_journal_of_a_job_that_names_no_change_unsure_is_still_read(world: World) -> None:
    world.turns = 1
    world.write("a.txt", "new\n")
    world.record((FileChange("a.txt", NOTHING, world.state(world.path("a.txt"))),), is_unsure=True)
    line = journal_path(world.data, world.session).read_text()
    assert '"is_unsure":true' in line and line.count("is_unsure") == 1
    (step,) = read_steps(world.data, world.session)
    assert step.changes[0].is_unsure
    assert world.undo()["kept"][0]["why"] == UNSURE and world.path("a.txt").exists()


def test_an_unsure_change_is_kept_in_the_journal() -> None:
    changes = (FileChange("a", OLD, NEW), FileChange("b", OLD, NEW, is_unsure=True))
    step = Step(id="s", session="s", turn=1, call="", what="", at="", root="/p", changes=changes)
    assert parse_step(json.loads(json.dumps(step, default=fields_of))) == step


@pytest.mark.matrix
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("command", ["pytest -q", "git commit -qm second"])
def test_what_the_person_commits_while_a_command_runs_stays(world: World, command: str) -> None:
    def git(*words: str) -> str:
        own = ("git", "-C", str(world.project), "-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run([*own, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    world.write("a", "1\n")
    git("add", "a")
    git("commit", "-qm", "first")
    first = git("rev-parse", "HEAD")
    world.write("b", "2\n")
    git("add", "b")
    run_command(world, command, work=lambda: git("commit", "-qm", "second"))
    second, report = git("rev-parse", "HEAD"), world.undo()
    assert (git("rev-parse", "HEAD") == first) is command.startswith("git ")
    if not command.startswith("git "):
        assert [(one["path"], one["why"]) for one in report["kept"]] == [(".git", UNSURE)]
        assert world.undo(".git")["references"] and git("rev-parse", "HEAD") == first
        assert world.redo()["references"] and git("rev-parse", "HEAD") == second
        assert second == git("rev-parse", "HEAD") and not world.undo(takes_unsure=True)["kept"]
    assert git("rev-parse", "HEAD") == first


def test_a_command_of_thousands_of_patterns_costs_no_comparison_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(unsure_changes, "fnmatchcase", lambda name, glob: compared.append(glob))
    change = FileChange("notes", FileState("absent"), FileState("file", 0o644))
    patterns = " ".join(f"*{number}*" for number in range(5000))
    (marked,) = unsure_changes.mark_unsure([change], ["notes"], f"mytool {patterns}", "", "/project")
    assert marked.is_unsure and 0 < len(compared) < 500
