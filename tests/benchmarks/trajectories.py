"""What models do on tasks, as scripts for `benchmarks.task_player`: short ones and long ones.

Short: tasks of `tests/tasks/`, and single commits of this repository. Long: lines of commits, one turn each, in one
session: which files are looked at and changed again, and when, is what happened. Before an edit the model needs to see
the lines that it replaces, and the definitions that the new lines use; what it does not see it searches and reads.
"""

from __future__ import annotations

import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.changes import Change, FileChange, Hunk, changes_of, write_tree
from benchmarks.task_player import Call, Player, Script, failed
from tasks.styles import KNOWS, as_call
from tasks.task import COMMIT, OWN, Turn, load, run_script

SHORT = (
    "bug",
    "duplicate_text",
    "failing_command",
    "feature",
    "generated_file",
    "huge_output",
    "long_file",
    "makefile",
    "merge_conflict",
    "migration",
    "monorepo",
    "rename_by_sed",
    "wrong_assumption",
    "chosen_port",
    "later_suite",
    "second_reader",
    "unclear_port",
    "unwritten_name",
)
"""Tasks of `tests/tasks/` that need nothing but git and Python; the last five also a tool behind `use_tool`."""
COMMITS = ("475a5e50", "f101b02c", "cf1d8d19", "912b4a39", "02814ef1")
LONG: Mapping[str, tuple[str, str]] = {
    "terminal": ("1a616066", "6c364e57"),
    "estimates": ("2a54bf74", "a56641ae"),
    "drops": ("87c4c154", "a910d99f"),
    "forks": ("cca35423", "1c735d8e"),
    "resume": ("9ba84604", "ef383b47"),
    "renaming": ("2be341ac", "f47ef815"),
    "servers": ("47715273", "823674da"),
}
"""Names of lines of commits: the commit before the first, and the last."""
WHOLE = 250
"""Most lines of a file that is read whole; of a longer one the model reads what it needs."""
LISTS = False
"""True if each commit begins with a list of the files in the folders that it changes."""
AROUND = 25
"""Lines read before and after those that are needed."""
MAX_NEEDED = 4
"""Most definitions that an edit is said to use."""
USED = re.compile(r"\b([A-Za-z_]\w{3,})\(")
NAME = re.compile(r"\b[a-z]\w*_\w+\b|\b[A-Z][a-z]+[A-Z]\w+\b")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One session: a prepared folder, then prompts with the scripts that answer them."""

    name: str
    is_long: bool
    prepare: Callable[[Path], None]
    turns: Callable[[Player, Path], Iterator[tuple[str, Script]]]
    check: Callable[[Path], str]
    """Returns what is wrong with the folder at the end, "" if the task is solved."""
    sessions: Sequence[int] = ()
    """Numbers of turns that begin another session, from 0."""
    is_saved: bool = False
    """True if a tool needs a session that is saved."""
    answers: Sequence[str] = ()
    """The person's answers to questions of the model; () if nobody is there."""


def trajectories() -> Iterator[Trajectory]:
    """Yield all, the short ones first."""
    yield from map(_of_task, SHORT)
    for commit in COMMITS:
        yield of_commits(f"commit {commit}", f"{commit}^", commit)
    for name, (first, last) in LONG.items():
        yield of_commits(name, first, last, is_long=True)


def _of_task(name: str) -> Trajectory:
    task = load(name)

    def script(turn: Turn, player: Player) -> Script:
        return _steps(turn.steps, turn.reply, player)

    def turns(player: Player, folder: Path) -> Iterator[tuple[str, Script]]:
        player.workers = {one.turns[0].prompt: partial(script, one.turns[0], player) for one in task.workers}
        for turn in task.turns:
            yield turn.prompt, script(turn, player)

    return Trajectory(
        name,
        False,
        task.prepare,
        turns,
        lambda folder: task.find_fault(folder, task.turns[-1].reply),
        [place for place, turn in enumerate(task.turns) if place and turn.is_new],
        any("use" in step for turn in task.turns for step in turn.steps),
        task.answers,
    )


def _steps(steps: Sequence[Mapping[str, Any]], reply: str, player: Player) -> Script:
    """Make the calls of a task one by one; before an edit read again what is out of sight."""
    for step in steps:
        if step.get("describe") in player.offered:
            continue
        call = as_call({"tool" if key == "use" and step[key] in player.offered else key: step[key] for key in step})
        if call[0] == KNOWS:
            continue
        if call[0] == "edit_file":
            old = "\n".join(edit["old"] for edit in call[1]["edits"])
            if player.sight.showed(old) and not player.sight.shows(old):
                player.account.rereads += 1
                yield [("read_file", {"path": call[1]["path"]})]
        results = yield [call]
        shows = step.get("shows", "")
        if shows and shows not in results[0]:
            raise AssertionError(f"{call} does not show {shows!r}: {results[0]}")
    return reply


def of_commits(name: str, first: str, last: str, *, is_long: bool = False) -> Trajectory:
    """Make the trajectory of the commits after `first` up to `last`, one turn each."""
    changes = changes_of(first, last)

    def prepare(folder: Path) -> None:
        write_tree(first, folder)
        run_script(COMMIT, folder)

    def turns(player: Player, folder: Path) -> Iterator[tuple[str, Script]]:
        coder = Coder(player, folder)
        for change in changes:
            yield f"{change.subject}\n\n{change.body}".strip(), coder.work(change)

    def check(folder: Path) -> str:
        ends = {file.path: file.text for change in changes for file in change.files}
        wrong = [path for path, text in ends.items() if _read(folder / path) != text]
        return f"not as committed: {', '.join(wrong)}" if wrong else ""

    return Trajectory(name, is_long, prepare, turns, check)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


@dataclass
class Coder:
    """Makes the changes of commits with the tools that a model has, over the turns of one session."""

    player: Player
    folder: Path

    def work(self, change: Change) -> Script:
        """Look, change the tests, see them fail, change the rest, run the tests."""
        yield [("bash", {"command": "git status --short | head -20; git log --oneline -3"})]
        if LISTS:
            folders = {file.path.rpartition("/")[0] for file in change.files} - {""}
            yield [("glob", {"pattern": f"{folder}/*"}) for folder in sorted(folders)]
        if name := _main_name(change):
            yield [("grep", {"pattern": rf"\b{name}\b"})]
        tests = [file for file in change.files if file.path.startswith("tests/")]
        rest = [file for file in change.files if not file.path.startswith("tests/")]
        run = test_command([file.path for file in tests])
        for file in tests:
            yield from self._make(file)
        if run and rest:
            yield [("bash", {"command": run})]
        for file in rest:
            yield from self._make(file)
        if run:
            yield [("bash", {"command": run})]
        yield [("bash", {"command": "git add -A && git commit -qm 'A step' && git show --stat --format=%s HEAD"})]
        return change.body or change.subject

    def _make(self, file: FileChange) -> Script:
        """Make what a commit does to one file."""
        if file.text is None:
            yield [("bash", {"command": f"rm {file.path}"})]
            return ""
        if not file.lines:
            yield from self._look_up(file, file.text)
            yield [("write_file", {"path": file.path, "content": file.text})]
            return ""
        yield from self._see(file, file.hunks)
        yield from self._look_up(file, "".join(hunk.new for hunk in file.hunks))
        edits = [{"old": hunk.old, "new": hunk.new} for hunk in file.hunks]
        (result,) = yield [("edit_file", {"path": file.path, "edits": edits})]
        if failed(result):
            yield [read_call(file, file.hunks)]
            yield [("edit_file", {"path": file.path, "edits": edits})]
        return ""

    def _see(self, file: FileChange, hunks: Sequence[Hunk]) -> Script:
        """Read the lines that will be replaced, as far as they are out of sight."""
        sight = self.player.sight
        missing = [hunk for hunk in hunks if not sight.shows(hunk.old)]
        if missing:
            self.player.account.rereads += all(sight.showed(hunk.old) for hunk in missing)
            yield [read_call(file, missing)]
        return ""

    def _look_up(self, file: FileChange, text: str) -> Script:
        """Search the definitions that `text` uses and that are out of sight."""
        sight, wanted, again = self.player.sight, list[str](), 0
        for used in dict.fromkeys(USED.findall(text)):
            line = self._definition(used)
            if line and line not in text and not sight.shows(line):
                wanted.append(used)
                again += sight.showed(line)
        if wanted := wanted[:MAX_NEEDED]:
            self.player.account.rereads += again >= len(wanted)
            yield [("grep", {"pattern": rf"^ *(def|class) ({'|'.join(wanted)})\b", "glob": "**/*.py", "context": 4})]
        return ""

    def _definition(self, name: str) -> str:
        """Return the line of the folder that defines `name`, "" if there is not exactly one."""
        return _definitions(self.folder).get(name, "")


def _definitions(folder: Path) -> Mapping[str, str]:
    """Return the lines that define names, those that are defined once, in the files as first seen."""
    if folder not in _KNOWN:
        found: dict[str, list[str]] = {}
        for path in sorted(folder.glob("**/*.py")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if match := re.match(r"(?:async )?(?:def|class) (\w+)", line):
                    found.setdefault(match[1], []).append(line)
        _KNOWN[folder] = {name: lines[0] for name, lines in found.items() if len(lines) == 1}
    return _KNOWN[folder]


_KNOWN: dict[Path, Mapping[str, str]] = {}


def read_call(file: FileChange, hunks: Sequence[Hunk]) -> Call:
    """Return the call that reads the lines of these hunks, and some around them; a short file whole."""
    if file.lines <= WHOLE:
        return "read_file", {"path": file.path}
    spans: list[tuple[int, int]] = []
    for hunk in sorted(hunks, key=lambda one: one.first):
        first, last = max(1, hunk.first - AROUND), hunk.first + hunk.old.count("\n") + AROUND
        if spans and spans[-1][1] >= first:
            first, last = spans.pop()[0], last
        spans.append((first, last))
    (start, end), *others = spans
    call: dict[str, Any] = {"path": file.path, "offset": start, "limit": end - start + 1}
    if others:
        call["more"] = [f"{file.path}:{first}-{last}" for first, last in others]
    return "read_file", call


def test_command(paths: Sequence[str]) -> str:
    """Return the command that runs these test files, "" if there are none."""
    found = [path for path in paths if re.search(r"/test_\w+\.py$", path)]
    return f"run-tests -q {' '.join(found)}" if found else ""


RUN_TESTS = """#!/bin/sh
cd "$(git rev-parse --show-toplevel)" || exit 2
key=$({ git ls-files -cos --exclude-standard; git diff; echo "$@"; } | sha256sum | cut -c1-32)
[ -e "$KEPT/$key" ] || {
    timeout 60 PYTHON -m pytest -p no:cacheprovider "$@" >"$KEPT/$key.$$" 2>&1 </dev/null
    status=$?
    [ -z "$(tail -c 1 "$KEPT/$key.$$")" ] || echo >>"$KEPT/$key.$$"
    echo "$status" >>"$KEPT/$key.$$"
    mv "$KEPT/$key.$$" "$KEPT/$key"
}
sed '$d' "$KEPT/$key"
exit "$(tail -n 1 "$KEPT/$key")"
"""
"""Runs the real tests of a tree, for a minute at most, unless their output was kept: by it, or in `RECORDED`."""
RECORDED = Path(__file__).with_name("recorded_tests.tar.xz")
"""Outputs of the tests of all trees, each with the exit status as its last line, by a hash of tree and arguments."""


def write_programs(folder: Path) -> Mapping[str, str]:
    """Write the programs that the trajectories call; return the environment in which they are found."""
    (folder / "outputs").mkdir()
    with tarfile.open(RECORDED) as recorded:
        recorded.extractall(folder / "outputs", filter="data")
    program = folder / "run-tests"
    program.write_text(RUN_TESTS.replace("PYTHON", sys.executable))
    program.chmod(0o755)
    return {**OWN, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "KEPT": str(folder / "outputs")}


def _main_name(change: Change) -> str:
    """Return the name that the lines of a commit have most often, "" for none."""
    counts: dict[str, int] = {}
    for file in change.files:
        for hunk in file.hunks:
            for name in NAME.findall(hunk.old):
                counts[name] = counts.get(name, 0) + 1
    return max(counts, key=lambda name: (counts[name], name), default="")
