"""Which tests a change needs: those that import what changed, nearest first, and those of tables.

Owns the comparison with upstream and the graph of imports. A file of the package that is no Python counts as the
modules beside it that have its name, else as all of its folder.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

UPSTREAM = ("upstream/main", "origin/main", "main")
"""Branches that a change is compared with: the first one that exists."""
TABLES = (
    "tests/cli/test_docs.py",
    "tests/cli/test_usage.py",
    "tests/cli/test_shell_command.py",
    "tests/cli/test_start_table.py",
    "tests/tools/test_definitions.py",
    "tests/tools/test_registry.py",
    "tests/reports/text/test_report_forms.py",
    "tests/cli/test_settings.py",
    "tests/test_promises.py",
    "tests/test_seeds.py",
    "tests/test_architecture.py",
)
"""Tests that compare the product with a list: pages, registries, golden texts. Hardly any imports what it breaks on."""
RECORDINGS = ("tests/recorded/test_recorded.py", "tests/recorded/test_outputs.py")
"""The tables whose tests take long: they play sessions."""
NEAR = 1
"""Tests that import a changed module, directly or by this many others, run first, then those of tables."""
MAX_OF_ROOM = 8
"""So many further files of tests of the changed room run before the recordings."""
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.MULTILINE
)


def choose_tests(changed: Iterable[str], root: Path) -> list[str]:
    """Return the test files for these changed files, in the order in which they should run."""
    changed = list(changed)
    graph = importers(root)
    distances = measure_distances(graph, {start for name in changed for start in _starting_points(name, graph)})
    tests = {PurePosixPath(name) for name in graph if PurePosixPath(name).match("test_*.py")}
    far = len(graph)
    places = {
        test: min([distances.get(str(test), far), *(_distance_by_name(test, PurePosixPath(name)) for name in changed)])
        for test in tests
    }
    rooms = {PurePosixPath("tests", *PurePosixPath(name).parent.parts[1:]) for name in changed}
    reached = [test for test in tests if places[test] < far]
    nearest = sorted(reached, key=lambda test: (places[test], test.parent not in rooms, str(test)))
    of_room = [test for test in nearest if places[test] == NEAR + 1 and test.parent in rooms]
    near = [test for test in nearest if places[test] <= NEAR]
    order = [*map(str, near), *TABLES, *map(str, of_room[:MAX_OF_ROOM]), *RECORDINGS, *map(str, nearest)]
    return [name for name in dict.fromkeys(order) if name in graph]


def _distance_by_name(test: PurePosixPath, changed: PurePosixPath) -> float:
    """Return how far a test is from a changed file by their places: a room has its tests in the folder of its name.

    What a registry finds by itself is imported by no test.
    """
    room = PurePosixPath("tests", *changed.parent.parts[1:])
    rooms = [folder for folder in (room, *room.parents) if len(folder.parts) > 1]
    if changed.suffix and changed.parts[0] == "nexus_cli" and test.parent in rooms:
        return NEAR if changed.stem in test.stem else NEAR + 1 + rooms.index(test.parent)
    if changed.suffix == ".md" or changed.match("test_*.py"):
        return float("inf")
    if changed.parts[0] == "tests" and changed.parent in test.parents[:-1]:
        return NEAR  # a conftest.py, a fixture, an expected screen
    return float("inf")


def measure_distances(graph: Mapping[str, set[str]], names: Iterable[str]) -> dict[str, int]:
    """Return by how many imports each file depends on one of `names`, which themselves are 0 away."""
    distances = dict.fromkeys(names, 0)
    waiting = list(distances)
    for name in waiting:
        for importer in graph.get(name, ()):
            if importer not in distances:
                distances[importer] = distances[name] + 1
                waiting.append(importer)
    return distances


def importers(root: Path) -> dict[str, set[str]]:
    """Return for each Python file of the package and of the tests the files that import it, anywhere in them."""
    files = [path.relative_to(root) for top in ("nexus_cli", "tests") for path in (root / top).rglob("*.py")]
    modules = {module_name(PurePosixPath(path.as_posix())): path.as_posix() for path in files}
    graph: dict[str, set[str]] = defaultdict(set)
    for module, name in modules.items():
        package = module if name.endswith("__init__.py") else module.rpartition(".")[0]
        graph[name].update()
        for imported in imported_names((root / name).read_text(encoding="utf-8"), package):
            if (target := modules.get(imported)) and target != name:
                graph[target].add(name)
    return graph


def module_name(path: PurePosixPath) -> str:
    """Return the name by which a file is imported: `tests/` is a folder of the import path."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "tests" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(text: str, package: str) -> set[str]:
    """Return the full names of what a file may import; some name a value in a module, not a module."""
    found: set[str] = set()
    for source, names, plain in IMPORT.findall(text):
        if plain:
            found |= {word.split()[0] for word in plain.split(",") if word.split()}
            continue
        dots = len(source) - len(source.lstrip("."))
        above = ".".join(package.split(".")[: len(package.split(".")) - dots + 1]) if dots else ""
        base = ".".join(filter(None, (above, source.lstrip("."))))
        found |= {base, *(f"{base}.{name}" for name in re.findall(r"\w+", re.sub(r"#.*", "", names)))}
    return found


def _starting_points(name: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Return the files of the graph for which this changed file stands."""
    path = PurePosixPath(name)
    if path.suffix == ".py" or path.parts[0] != "nexus_cli":
        return {name} & set(graph)
    if path.suffix == ".md":
        return set()
    beside = {other for other in graph if PurePosixPath(other).parent == path.parent}
    return {other for other in beside if PurePosixPath(other).stem == path.stem} or beside


def changed_files(root: Path) -> list[str]:
    """Return the files that differ from the merge base with upstream, committed or not, deleted and new ones too."""
    base = next((found for name in UPSTREAM if (found := _git(root, "merge-base", "HEAD", name))), ["HEAD"])
    listed = _git(root, "diff", "--name-only", "--no-renames", base[0])
    return sorted({*listed, *_git(root, "ls-files", "--others", "--exclude-standard")})


def _git(root: Path, *words: str) -> list[str]:
    """Return the lines that git prints; none if it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return [] if done.returncode else done.stdout.split("\n")[:-1]
