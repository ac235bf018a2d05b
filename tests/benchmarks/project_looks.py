"""A look at a project before and after a command, and an undo, beside `find` over the same entries in the same run.

Also with 100,000 files if `LARGE` is set in the environment: that takes minutes.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import milliseconds
from benchmarks.row import Benchmark, Row

from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.journal import read_steps
from nexus_cli.undo.undo_turn import UndoRequest, undo_turn

FILES = (1_000, 10_000, *((100_000,) if os.environ.get("LARGE") else ()))
UNTRACKED = (19_000, *((90_000,) if os.environ.get("LARGE") else ()))
OWNER = StepOwner("benchmark", 1)


def make_project(folder: Path, files: int, *, packed: bool = True) -> None:
    """A repository of `files` committed files, of which ten are changed and ten are ignored, and ten untracked ones.

    What a clone brings is in packs; `packed=False` leaves each file's content an object of its own.
    """
    for number in range(files):
        place = folder / f"d{number // 100}" / f"f{number}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{number}\n" * 20)
    (folder / ".gitignore").write_text("*.log\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    if packed:
        subprocess.run([*git, "gc", "-q"], check=True)
    for number in range(10):
        (folder / f"d0/f{number}.txt").write_text("changed\n")
        (folder / f"new{number}.txt").write_text("untracked\n")
        (folder / f"own{number}.log").write_text("ignored\n")
    time.sleep(2.1)  # what has just changed is read again each time
    subprocess.run([*git, "status"], check=True, stdout=subprocess.DEVNULL)


def cpu() -> float:
    """CPU seconds of this process and its children."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measure(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Median seconds of wall time and of CPU."""
    walls, used = [], []
    for _ in range(times):
        began, before = time.perf_counter(), cpu()
        work()
        walls.append(time.perf_counter() - began)
        used.append(cpu() - before)
    return statistics.median(walls), statistics.median(used)


def time_undo(journal: ChangeJournal, root: Path, data: Path) -> tuple[float, int]:
    """Remove all files of a project in a command, and undo that; return the seconds of the undo and its files."""
    begun = journal.begin(StepOwner("undone", 1), "bash rm", "", root)
    for place in root.glob("d*"):
        shutil.rmtree(place)
    journal.end(begun)
    began = time.perf_counter()
    report = undo_turn(UndoRequest(data, "undone", 1, str(root), str(root)))
    assert not report["kept"], report["kept"][:3]
    return time.perf_counter() - began, len(report["restored"])


def make_untracked(folder: Path, files: int) -> None:
    """An empty repository in a folder of `files` small files."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number in range(files):
        place = folder / f"d{number // 1000}" / f"f{number}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{number}\n" * 20)


def rows(times: int) -> Iterator[Row]:
    """Half of what a command without changes costs is one look."""
    tracked = [(files, "tracked") for files in FILES]
    for files, kind in (*tracked, (10_000, "loose"), *((files, "untracked") for files in UNTRACKED)):
        with tempfile.TemporaryDirectory() as place:
            root, data = Path(os.path.realpath(place), "project"), Path(place, "data")
            root.mkdir()
            if kind == "untracked":
                make_untracked(root, files)
            else:
                make_project(root, files, packed=kind == "tracked")
            journal = ChangeJournal(data)

            def command(journal: ChangeJournal = journal, root: Path = root) -> None:
                journal.end(journal.begin(OWNER, "bash true", "", root))

            def find(root: Path = root) -> None:
                listed = ["find", str(root), "-printf", "%s %T@ %C@ %i\n"]
                subprocess.run(listed, check=True, stdout=subprocess.DEVNULL)

            began = time.perf_counter()
            command()
            first = time.perf_counter() - began
            early, _ = measure(command, 3)
            # What the first look only linked is copied, and what git's index says of files is checked.
            for _ in range(10 if kind == "untracked" else files // 400):
                command()
            wall, used = measure(command, times)
            find_wall, find_used = measure(find, times)
            whys = {step.unfollowed for step in read_steps(data, OWNER.session)} - {""}
            seconds, restored = time_undo(journal, root, data)
            journal.close()
        what = f"{files:,} files, {kind}"
        most = {10_000: 1.6, 100_000: 2.0}.get(files) if kind == "tracked" else None
        base, against = milliseconds(find_wall), "find"
        yield Row(f"a look, {what}, wall time", milliseconds(wall / 2), "ms", base, against)
        yield Row(f"a look, {what}, CPU", milliseconds(used / 2), "ms", milliseconds(find_used), against, most)
        yield Row(f"the first command, {what}, wall time", milliseconds(first), "ms", milliseconds(wall), "the others")
        yield Row(f"the next three, {what}, wall time", milliseconds(early), "ms", milliseconds(wall), "later ones")
        yield Row(f"an undo, {restored:,} files, wall time", milliseconds(seconds), "ms", base, against)
        if whys:
            yield Row(f"commands that were not followed, {what}: {'; '.join(whys)}", len(whys), "reasons")


BENCHMARK = Benchmark("a look at a project before or after a command, for undo", rows)
