"""Count how many small defects of the product the tests notice, and which of them only the whole matrix notices.

    python tests/benchmarks/mutations.py CLONE choose [--seed SEED] [--count COUNT]
    python tests/benchmarks/mutations.py CLONE trace [--only gate|matrix] [--processes N]
    python tests/benchmarks/mutations.py CLONE run [--part K/N] [--whole COUNT]
    python tests/benchmarks/mutations.py CLONE report

CLONE is a clone of this repository with an environment of its own in `.venv`, made as the README's Test line says: its
files are changed, and restored by git. What the steps find lies in `CLONE/.mutations/`.

`choose` draws defects by a seed, most of them from what people are promised; a defect that fails at import, or that
ruff or mypy refuse, does not count. `trace` runs the whole suite once over a copy in which each such expression notes
who evaluates it; `--only` runs the gate alone, or what it leaves out, and adds to what is known. `run` makes one defect
at a time and runs the tests that evaluate the expression, those of the gate first, up to the first failure; `--whole`
runs the whole gate for the first defects instead.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = ".mutations"
SHARES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("laws", 15, ("conversation/", "context/", "sections/", "engine/", "ledger/", "session/")),
    ("walls", 12, ("sandbox/", "rules/", "permission/", "config/programs.py", "config/protected_places.py")),
    ("undo", 9, ("undo/", "worktrees/")),
    ("exit status", 6, ("core/errors.py", "cli/ask/", "cli/app.py", "cli/", "provider/failures.py")),
    ("questions", 6, ("ui/",)),
    (
        "prices",
        4,
        (
            "provider/usage.py",
            "provider/model_table.py",
            "core/limits.py",
            "engine/requests/spending.py",
            "ledger/usage",
        ),
    ),
    ("other", 8, ("",)),
)
"""What is drawn: a kind of promise, how many of 60, and the files that keep it."""
DEFAULTS = {"bool": "False", "int": "0", "float": "0.0", "str": '""', "bytes": 'b""'}
"""What a function returns in place of its result, by its annotation; None for an optional one, empty for containers."""
CONTAINERS = {"list": "[]", "tuple": "()", "dict": "{}", "set": "set()", "frozenset": "frozenset()"}
STRICTER = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
MAX_SECONDS = 900.0
"""Time limit of the tests of one defect; one that hangs them is noticed."""
PROBE = """

def _install_probe() -> None:
    import builtins, os, threading, time
    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    seen = set()
    def parents():
        pid, found = os.getpid(), []
        while pid > 1:
            found.append(pid)
            try:
                with open(f"/proc/{pid}/stat") as file:
                    pid = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                break
        return found
    def probe(number):
        now = time.monotonic()
        key = number, os.getpid(), os.environ.get("PYTEST_CURRENT_TEST"), int(now * 5)
        if key not in seen:
            seen.add(key)
            try:
                os.write(log, f"{number}\\t{now}\\t{','.join(map(str, parents()))}\\n".encode())
            except OSError:
                pass
        return 0
    builtins._nexus_probe = probe
_install_probe()
"""
"""Appended to the package of the traced copy."""
TIMES = """
import os, time, pytest
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    began = time.monotonic()
    try:
        return (yield)
    finally:
        with open(LOG, "a") as file:
            file.write(f"{os.getpid()}\\t{began}\\t{time.monotonic()}\\t{item.nodeid}\\n")
"""
"""A plugin of pytest: when each process of the run was in which test."""


@dataclass(frozen=True)
class Mutant:
    """One defect: the bytes `start` to `end` of a file become `after`."""

    kind: str
    operator: str
    path: str
    line: int
    start: int
    end: int
    before: str
    after: str


# -- choosing ----------------------------------------------------------------------------------------------------------


def find_mutants(tree: Path, path: str, kind: str) -> Iterator[Mutant]:
    """Yield the defects that the operators make of a file, in functions alone."""
    source = (tree / path).read_bytes()
    starts = [0]
    for row in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.expr) -> str:
        return source[slice(*span(node))].decode()

    def make(operator: str, node: ast.expr, after: str) -> Mutant:
        return Mutant(kind, operator, path, node.lineno, *span(node), text(node), after)

    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in _walk(function.body):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                yield make("negate", node.test, f"(not ({text(node.test)}))")
            elif isinstance(node, ast.Expr):
                call = node.value.value if isinstance(node.value, ast.Await) else node.value
                if isinstance(call, ast.Call):
                    yield make("drop a call", node.value, "pass")
            elif isinstance(node, ast.Constant) and type(node.value) is int and text(node).isdigit():
                yield make("off by one", node, str(node.value + 1))
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in STRICTER and len(node.ops) == 1:
                changed = f"{text(node.left)} {STRICTER[type(node.ops[0])]} {text(node.comparators[0])}"
                yield make("off by one", node, f"({changed})")
            elif isinstance(node, ast.Call) and len(node.args) > 1:
                first, second = node.args[:2]
                if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
                    between = source[span(first)[1] : span(second)[0]].decode()
                    start, end, swapped = span(first)[0], span(second)[1], f"{text(second)}{between}{text(first)}"
                    before = source[start:end].decode()
                    yield Mutant(kind, "swap two arguments", path, node.lineno, start, end, before, swapped)
        for node in _walk(function.body):
            if isinstance(node, ast.Return) and node.value is not None and function.returns is not None:
                default = _default_of(ast.unparse(function.returns))
                if default and default != ast.unparse(node.value):
                    yield make("return the default", node.value, default)


def _walk(rows: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes below `rows`, without those in f-strings, in which Python 3.11 takes no probe."""
    for row in rows:
        yield row
        if not isinstance(row, ast.JoinedStr):
            yield from _walk([*ast.iter_child_nodes(row)])


def _default_of(annotation: str) -> str:
    if annotation.endswith("| None"):
        return "None"
    return DEFAULTS.get(annotation) or CONTAINERS.get(annotation.partition("[")[0], "")


def choose(tree: Path, seed: int, count: int) -> list[Mutant]:
    """Draw `count` defects that import, ruff and mypy let pass."""
    draw = random.Random(seed)
    files = sorted(str(path.relative_to(tree)) for path in (tree / "nexus_cli").rglob("*.py"))
    chosen: list[Mutant] = []
    for kind, share, prefixes in SHARES:
        wanted = round(share * count / sum(row[1] for row in SHARES))
        found = [
            one
            for path in files
            if path.removeprefix("nexus_cli/").startswith(prefixes)
            for one in find_mutants(tree, path, kind)
        ]
        by_operator: dict[str, list[Mutant]] = {}
        for one in found:
            by_operator.setdefault(one.operator, []).append(one)
        taken = 0
        while taken < wanted:
            rows = by_operator[draw.choice(sorted(by_operator))]
            one = draw.choice(rows)
            if one not in chosen and is_plausible(tree, one):
                chosen.append(one)
                taken += 1
                print(f"{len(chosen):3}  {one.kind:12} {one.operator:18} {one.path}:{one.line}", flush=True)
    return chosen


def is_plausible(tree: Path, mutant: Mutant) -> bool:
    """Return True if the changed product can be imported and ruff and mypy have nothing against it."""
    module = mutant.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    apply_mutant(tree, mutant)
    try:
        return all(
            subprocess.run(command, cwd=tree, capture_output=True).returncode == 0
            for command in (
                [_python(tree), "-c", f"import {module}"],
                [_python(tree), "-m", "ruff", "check", "--quiet", mutant.path],
                [_python(tree), "-m", "mypy", "--strict", "--no-error-summary", mutant.path],
            )
        )
    except SyntaxError:
        return False
    finally:
        restore(tree, mutant)


def apply_mutant(tree: Path, mutant: Mutant) -> None:
    """Make the defect in the clone."""
    _replace(tree / mutant.path, [(mutant.start, mutant.end, mutant.after.encode())])


def restore(tree: Path, mutant: Mutant) -> None:
    """Take the defect back."""
    subprocess.run(["git", "checkout", "-q", "--", mutant.path], cwd=tree, check=True)


def _replace(path: Path, changes: Sequence[tuple[int, int, bytes]]) -> None:
    source = path.read_bytes()
    for start, end, new in sorted(changes, reverse=True):
        source = source[:start] + new + source[end:]
    path.write_bytes(source)


# -- tracing -----------------------------------------------------------------------------------------------------------


def trace(tree: Path, mutants: Sequence[Mutant], *options: str) -> dict[int, list[str]]:
    """Run the suite with a probe in each expression; return the tests that evaluate each, the quickest first."""
    place = tree / FOLDER
    log, times = place / "evaluated.tsv", place / "times.tsv"
    for old in (log, times):
        old.unlink(missing_ok=True)
    (place / "mutation_times.py").write_text(f"LOG = {str(times)!r}\n{TIMES}")
    by_file: dict[str, list[tuple[int, int, bytes]]] = {}
    for number, one in enumerate(mutants):
        # Two defects of one expression: the outer one is probed.
        if any(start <= one.start and one.end <= end for start, end, _ in by_file.get(one.path, ())):
            continue
        inner = (tree / one.path).read_bytes()[one.start : one.end].decode()
        probe = f'__import__("builtins").__dict__.get("_nexus_probe", int)({number})'
        # A pair of arguments becomes a pair again.
        probed = f"*({probe}, {inner})[1:]" if one.operator.startswith("swap") else f"({probe}, {inner})[1]"
        by_file.setdefault(one.path, []).append((one.start, one.end, probed.encode()))
    try:
        for path, changes in by_file.items():
            _replace(tree / path, changes)
        with (tree / "nexus_cli/__init__.py").open("a") as file:
            file.write(f"\nLOG = {str(log)!r}\n{PROBE}")
        environment = {**os.environ, "PYTHONPATH": str(place)}
        subprocess.run(
            [_python(tree), "-m", "pytest", "-p", "mutation_times", *options],
            cwd=tree,
            env=environment,
        )
    finally:
        subprocess.run(["git", "checkout", "-q", "--", "nexus_cli"], cwd=tree, check=True)
    return _read_trace(log, times, len(mutants))


def _read_trace(log: Path, times: Path, count: int) -> dict[int, list[str]]:
    """Return the tests in which each probe was evaluated: by the process of the suite above the one that did, at that
    time; where there is none, every test that ran then."""
    rows: dict[int, list[tuple[float, float, str]]] = {}
    seconds: dict[str, float] = {}
    for line in times.read_text().splitlines():
        pid, began, ended, test = line.split("\t", 3)
        rows.setdefault(int(pid), []).append((float(began), float(ended), test))
        seconds[test] = float(ended) - float(began)
    for found in rows.values():
        found.sort()

    def running(pid: int, at: float) -> list[str]:
        place = bisect_right(rows[pid], (at, float("inf"), "")) - 1
        return [rows[pid][place][2]] if place >= 0 and rows[pid][place][1] >= at else []

    tests: dict[int, set[str]] = {number: set() for number in range(count)}
    written = (line.split("\t") for line in log.read_text().splitlines())
    for number, at, pids in (row for row in written if len(row) == 3):  # a run may have put the log to other use
        above = [int(pid) for pid in pids.split(",") if pid and int(pid) in rows]
        for process in above[:1] or rows:
            tests[int(number)].update(running(process, float(at)))
    return {number: sorted(found, key=seconds.__getitem__) for number, found in tests.items()}


# -- running -----------------------------------------------------------------------------------------------------------

GATE = ("-m", "not matrix")
"""The options of pytest that leave out what the gate leaves out."""
ONLY = {"": (), "gate": GATE, "matrix": ("-m", "matrix")}
"""The options of pytest by what `trace` runs."""


def collect(tree: Path, *options: str) -> set[str]:
    """Return the names of the tests that pytest would run with these options."""
    words = [_python(tree), "-m", "pytest", "--collect-only", *options]
    listed = subprocess.run(words, cwd=tree, capture_output=True, text=True).stdout
    return {line for line in listed.splitlines() if "::" in line}


def run_tests(tree: Path, tests: Sequence[str], *options: str) -> str:
    """Run these tests up to the first failure; return its name, "" if all pass."""
    if not tests:
        return ""
    listed = tree / FOLDER / f"tests-{os.getpid()}"
    listed.write_text("\n".join(tests))
    words = [_python(tree), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options]
    try:
        done = subprocess.run(
            [*words, f"@{listed}"], cwd=tree, capture_output=True, text=True, errors="replace", timeout=MAX_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "(the tests hang)"
    if done.returncode == 0:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[0] if named else f"(exit status {done.returncode}) {done.stdout[-300:]}"


def run_mutant(tree: Path, mutant: Mutant, tests: Sequence[str], gate: set[str], whole: bool) -> dict[str, object]:
    """Make one defect; return which test of the gate noticed it, or else which one of the matrix."""
    began = time.monotonic()
    apply_mutant(tree, mutant)
    try:
        inside = [] if whole else [test for test in tests if test in gate]
        # The figures of the source are no test of what it does.
        others = ["--deselect", "tests/test_architecture.py", "--deselect", "tests/test_seeds.py"]
        by_gate = run_tests(tree, ["tests"], *GATE, *others, "--processes", "6") if whole else run_tests(tree, inside)
        by_rest = "" if by_gate else run_tests(tree, [test for test in tests if test not in gate])
    finally:
        restore(tree, mutant)
    row = {"tests": len(tests), "of_gate": len(inside), "gate": by_gate, "matrix": by_rest}
    return {**row, "whole": whole, "seconds": round(time.monotonic() - began, 1)}


def _python(tree: Path) -> str:
    return str(tree / ".venv/bin/python")


# -- the command -------------------------------------------------------------------------------------------------------


def _read(place: Path, name: str) -> dict[str, object]:
    path = place / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    assert isinstance(found, dict)
    return found


def _write(place: Path, name: str, value: object) -> None:
    (place / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")


def report(place: Path, mutants: Sequence[Mutant]) -> str:
    """Return the figures of all parts that were run: a line for each defect that the gate does not notice."""
    results: dict[str, dict[str, object]] = {}
    for path in sorted(place.glob("results*.json")):
        results |= json.loads(path.read_text())
    lines, gate, matrix = [], 0, 0
    for number, one in enumerate(mutants):
        row = results.get(str(number))
        if row is None:
            continue
        gate += bool(row["gate"])
        matrix += bool(row["gate"] or row["matrix"])
        if not row["gate"]:
            where = f"{one.path}:{one.line}"
            lines.append(f"{number:3} {one.kind:11} {one.operator:18} {where}  {row['matrix'] or 'nobody notices it'}")
    return "\n".join([*lines, f"{len(results)} defects: the gate notices {gate}, the whole matrix {matrix}"])


def main(arguments: Sequence[str]) -> int:
    """Carry out one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("step", choices=("choose", "trace", "run", "report"))
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--only", choices=[*filter(None, ONLY)], default="", help="trace a part of the suite")
    parser.add_argument("--processes", default="6", help="trace in so many processes")
    parser.add_argument("--part", default="0/1", help="run only each N-th defect, from the K-th on: K/N")
    parser.add_argument("--whole", type=int, default=0, help="run the whole gate for the first so many")
    options = parser.parse_args(arguments)
    tree: Path = options.clone.resolve()
    place = tree / FOLDER
    place.mkdir(exist_ok=True)
    if options.step == "choose":
        _write(place, "mutants", {"rows": [asdict(one) for one in choose(tree, options.seed, options.count)]})
        return 0
    rows = _read(place, "mutants")["rows"]
    assert isinstance(rows, list)
    mutants = [Mutant(**row) for row in rows]
    if options.step == "trace":
        known: dict[str, Any] = _read(place, "tests") if options.only else {}
        words = (*ONLY[options.only], "--processes", options.processes)
        for number, found in trace(tree, mutants, *words).items():
            known[str(number)] = [*dict.fromkeys([*known.get(str(number), ()), *found])]
        _write(place, "tests", known)
    elif options.step == "run":
        part, parts = map(int, options.part.split("/"))
        tests, gate, results = _read(place, "tests"), collect(tree, *GATE), dict[str, object]()
        for number, one in enumerate(mutants):
            if number % parts == part:
                named = tests[str(number)]
                assert isinstance(named, list)
                results[str(number)] = row = run_mutant(tree, one, named, gate, number < options.whole)
                _write(place, f"results-{part}", results)
                print(number, one.operator, f"{one.path}:{one.line}", row, flush=True)
    else:
        print(report(place, mutants))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
