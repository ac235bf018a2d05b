"""Finds the benchmarks of this folder, runs the named ones (or all) and prints one table.

Every file that exports `BENCHMARK` is one; its name is the file's. What is measured and how is theirs.
"""

from __future__ import annotations

import argparse
import importlib
import platform
from pathlib import Path

from benchmarks.measure import ChildFailedError
from benchmarks.row import Benchmark, Row

FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, Benchmark]:
    """Name to benchmark, in order of names."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        if "\nBENCHMARK = " in path.read_text(encoding="utf-8"):
            found[path.stem] = importlib.import_module(f"benchmarks.{path.stem}").BENCHMARK
    return found


def figure(value: float, unit: str) -> str:
    """`value` with three significant digits and its unit."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def line(row: Row) -> str:
    """The row as a line of a Markdown table."""
    base = f"{figure(row.base, row.unit)} ({row.against})" if row.base is not None else ""
    ratio = f"{row.ratio:.2f} x" if row.ratio is not None else ""
    bound = "" if row.most is None else f"{row.most:g} x" if row.base is not None else figure(row.most, row.unit)
    verdict = {None: "", True: "holds", False: "**fails**"}[row.holds]
    return f"| {row.what} | {figure(row.value, row.unit)} | {base} | {ratio} | {bound} | {verdict} |"


def main(arguments: list[str]) -> int:
    """Measure what `arguments` name; returns 1 when a bound does not hold."""
    known = benchmarks()
    parser = argparse.ArgumentParser(description="Measures nexus beside baselines in the same run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; without: all")
    parser.add_argument("--times", type=int, default=20, help="repetitions of each figure (default 20)")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, medians of {given.times}\n")
    failed = False
    for name in given.names or known:
        print(f"### {name}: {known[name].about}\n")
        print("| what | figure | baseline | ratio | at most | |\n|---|---|---|---|---|---|", flush=True)
        try:
            for row in known[name].rows(given.times):
                print(line(row), flush=True)
                failed = failed or row.holds is False
        except ChildFailedError as error:
            print(f"\nnot measured: {error}")
            failed = True
        print()
    return 1 if failed else 0
