"""What the repositories of a workspace of twenty clones, of a thousand commits each, cost each command."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import milliseconds
from benchmarks.project_looks import measure
from benchmarks.row import Benchmark, Row

from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.undo.follow_repositories import Repositories

CLONES, COMMITS = 20, 1_000


def make_clones(folder: Path, *, packed: bool) -> list[str]:
    """Make the clones, with their objects in a pack or in files of their own; return their names."""
    commit = "commit refs/heads/main\ncommitter n <n@x> {} +0000\ndata 0\nM 644 inline f{}\ndata 4\n{:04d}\n"
    stream = "".join(commit.format(1_700_000_000 + number, number % 50, number) for number in range(COMMITS))
    names = [f"c{number}" for number in range(CLONES)]
    for name in names:
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder / name)], check=True)
        limit = ["-c", f"fastimport.unpackLimit={1 if packed else 100_000}"]
        for command in ([*limit, "fast-import", "--quiet"], ["reset", "-q", "--hard"]):
            subprocess.run(["git", "-C", str(folder / name), *command], input=stream.encode(), check=True)
    return names


def rows(times: int) -> Iterator[Row]:
    """Of a command that changes none; the first commands copy."""
    for packed in (True, False):
        with tempfile.TemporaryDirectory() as place:
            folder, data = Path(os.path.realpath(place), "work"), Path(place, "data")
            folder.mkdir()
            names = make_clones(folder, packed=packed)
            followed = Repositories(folder, data, ByteStore(data))

            def command(followed: Repositories = followed, names: list[str] = names) -> None:
                followed.end(followed.begin(names))

            def list_references(folder: Path = folder, names: list[str] = names) -> None:
                for name in names:
                    subprocess.run(["git", "-C", str(folder / name), "for-each-ref"], check=True, capture_output=True)

            count = 0
            while followed.not_covered or not count:
                command()
                count += 1
            wall, _ = measure(command, times)
            git, _ = measure(list_references, times)
        what = f"{CLONES} clones, {'packed' if packed else 'loose objects'}"
        yield Row(f"{what}, wall time", milliseconds(wall), "ms", milliseconds(git), "git for-each-ref in each")
        yield Row(f"{what}, commands until all are copied", count, "commands")


BENCHMARK = Benchmark("the repositories of a workspace, for undo", rows)
