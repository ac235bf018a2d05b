"""`PROMISES.md` and `SEEDS.md`: the tests they name are there, each promise has one in the gate, and all have a row."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from search import FROZEN_ROWS, PROMISED, list_promised

TESTS = Path(__file__).resolve().parent
TABLE = (TESTS / "PROMISES.md").read_text(encoding="utf-8")
LISTS = ("PROMISES.md", "SEEDS.md")
"""Pages whose rows name tests."""


def list_named(page: str) -> set[str]:
    """Return the names of the tests that a page names."""
    return set(re.findall(r"`(test_\w+)`", (TESTS / page).read_text(encoding="utf-8")))


def is_left_out(node: ast.AST | None) -> bool:
    """Return whether these decorators or this `pytestmark` leave everything that they mark to the full matrix."""
    return node is not None and re.search(r"\bmark\.matrix\b", ast.unparse(node)) is not None


@cache
def gate_by_test() -> dict[str, list[bool]]:
    """Return for each test that a page names whether the gate runs it, once for each test of that name."""
    found: dict[str, list[bool]] = defaultdict(list)
    named = {name for page in LISTS for name in list_named(page)}
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        here = named.intersection(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))
        if not here or "matrix" not in text:  # to parse all files takes seconds
            for name in here:
                found[name].append(True)
            continue
        tree = ast.parse(text)
        whole = [node.value for node in tree.body if isinstance(node, ast.Assign) and _is_pytestmark(node)]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in here:
                left_out = any(is_left_out(mark) for mark in (*whole, *node.decorator_list))
                found[node.name].append(not left_out)
    return found


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


@pytest.mark.parametrize("page", LISTS)
def test_every_test_that_is_named_for_the_gate_is_in_it(page: str) -> None:
    named = list_named(page)
    known = gate_by_test()
    gone = sorted(named - known.keys())
    assert not gone, f"tests/{page} names tests that are not there; write their new names into it: {', '.join(gone)}"
    if page == "PROMISES.md":
        named, _ = list_promised(TABLE)
    left_out = sorted(name for name in named if name in known and not all(known[name]))
    left_out += sorted(name for name in named if FROZEN_ROWS.get(name) == ".*")
    assert not left_out, f"tests/{page} names these, so take `matrix` off them or name others: {', '.join(left_out)}"
    assert named


def test_every_row_names_a_test_of_the_gate() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) > 120
    found = [PROMISED.fullmatch(row) for row in rows]
    missing = [row for row, match in zip(rows, found, strict=True) if not match or "`test_" not in match["gate"]]
    assert not missing, "name a test of the gate in these rows of tests/PROMISES.md:\n" + "\n".join(missing)


def test_a_test_that_a_row_leaves_to_the_full_matrix_is_no_frozen_one() -> None:
    _, left = list_promised(TABLE)
    frozen = json.loads((TESTS / "frozen.json").read_text(encoding="utf-8"))
    assert left and not left & frozen.keys(), f"frozen tests stay in the gate: {sorted(left & frozen.keys())}"
    row = "| a | `test_b`, `test_c`; in the full matrix `test_d` |\n| e | `test_f`; in the full matrix `test_b` |"
    assert list_promised(row) == ({"test_b", "test_c", "test_f"}, {"test_d"})


def section(title: str) -> str:
    return TABLE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def missing(title: str, names: set[str], named: set[str]) -> str:
    """Return what to do about names without a row, "" if there are none."""
    rows = "\n".join(f"| `{name}`: what it promises | `test_...` |" for name in sorted(names - named))
    return rows and f"add to tests/PROMISES.md, under `{title}`, with the test that holds it:\n{rows}"


def first_cells(title: str, pattern: str = ".*") -> set[str]:
    """Return the words between backticks in the first cells of a section, of those cells alone that fit `pattern`."""
    cells = [line.split("|")[1].strip() for line in section(title).splitlines() if line.startswith("| ")]
    fitting = [cell for cell in cells if re.fullmatch(pattern, cell)]
    return {word for cell in fitting for marked in re.findall(r"`([^`]+)`", cell) for word in marked.split()}


def test_every_command_has_a_row() -> None:
    from nexus_cli.cli.app import COMMANDS

    told = missing("Commands of the shell", set(COMMANDS), first_cells("Commands of the shell"))
    assert not told, told


def test_every_tool_has_a_row() -> None:
    from nexus_cli.tools import builtin

    names = {path.stem for folder in builtin.__path__ for path in Path(folder).glob("*.json")}
    told = missing("Tools", names, first_cells("Tools"))
    assert names and not told, told
    gone = sorted(first_cells("Tools", r"`\w+`(, `\w+`)*") - names)
    assert not gone, f"there are no such tools; take them out of `Tools` in tests/PROMISES.md: {', '.join(gone)}"


def test_every_kind_of_error_has_its_row() -> None:
    from program.rows import ROWS

    from nexus_cli.core.errors import EXIT_STATUS

    rows = [line for line in section("Exit status").splitlines() if line.startswith("| ")]
    told = sorted({str(kind) for kind in EXIT_STATUS} - {word for row in rows for word in re.findall(r"\w+", row)})
    assert not told, f"add a row to `Exit status` in tests/PROMISES.md for: {', '.join(told)}"
    (shared,) = [row.split("|")[1] for row in rows if "`test_the_row_ends_with_its_status_and_its_kind`" in row]
    left = sorted(set(re.findall(r"\w+", shared)) - {row.kind for row in ROWS})
    assert not left, f"tests/program/rows.py has none of these kinds; add them there, or name another test: {left}"


def test_every_method_of_the_server_has_a_row() -> None:
    from nexus_cli.rpc.methods import METHODS

    told = missing("The server", set(METHODS), first_cells("The server"))
    assert not told, told
