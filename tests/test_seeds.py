"""`tests/SEEDS.md`, the stranger's questions of `tests/README.md`, the READMEs of the rooms: what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
TABLE = (TESTS / "SEEDS.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    there = {
        found
        for path in TESTS.rglob("test_*.py")
        for found in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    gone = sorted(named - there)
    assert not gone, f"tests/SEEDS.md names tests that are not there; write their new names: {', '.join(gone)}"


def test_every_row_of_a_seed_names_a_test_or_a_room() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith(("| part", "| field"))]
    assert len(rows) > 80
    assert [row for row in rows if "`test_" not in row.split("|")[3] and "room " not in row.split("|")[3]] == []


def test_every_file_that_answers_a_stranger_is_there() -> None:
    package = TESTS.parent / "nexus_cli"
    questions = (TESTS / "README.md").read_text(encoding="utf-8").partition("## Ten questions of a stranger")[2]
    named = re.findall(r"`([\w/]+\.py)`", questions.partition("| question |")[2])
    assert len(named) > 10
    assert [name for name in named if not (package / name.removeprefix("nexus_cli/")).is_file()] == []


def test_every_file_of_the_seeds_is_there() -> None:
    package = TESTS.parent / "nexus_cli"
    names = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", TABLE.partition("\n## ")[2]))
    assert [name for name in named if not any(f"/{there}".endswith(f"/{name}") for there in names)] == []


def test_a_room_is_described_in_sixty_lines_and_its_files_are_there() -> None:
    root = TESTS.parent
    names = {f"/{path.relative_to(root)}" for path in root.glob("*/**/*.py")}
    readmes = list((root / "nexus_cli").rglob("README.md"))
    assert len(readmes) > 10
    wrong = []
    for path in readmes:
        text = path.read_text(encoding="utf-8").partition("\nPublic modules: ")[0]
        named = set(re.findall(r"`([\w/]+\.py)`", text)) - {"NAME.py"}
        wrong += [f"{path}: {name}" for name in named if not any(there.endswith(f"/{name}") for there in names)]
        wrong += [f"{path}: {len(text.splitlines())} lines"] if len(text.splitlines()) > 60 else []
    assert not wrong, "\n".join(wrong)
