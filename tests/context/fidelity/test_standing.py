"""When a commitment counts as standing in a text: reworded yes, corrupted no."""

from __future__ import annotations

import pytest

from nexus_cli.context.fidelity import Commitment, CommitmentKind
from nexus_cli.context.fidelity.keys import commitment
from nexus_cli.context.fidelity.standing import Standing

Kind = CommitmentKind
API = commitment(Kind.CONSTRAINT, "Don't touch the public API.", 1)
TABS = commitment(Kind.CONSTRAINT, "Use tabs", 1)
SQLITE = commitment(Kind.CORRECTION, "use SQLite instead of Postgres", 1)
PORT = commitment(Kind.IDENTIFIER, "8081", 1)
VERSION = commitment(Kind.IDENTIFIER, "3.9", 1)
CHANGED = commitment(Kind.FILE, "src/a.py", 1, state="changed")
DELETED = commitment(Kind.FILE, "src/a.py", 1, state="deleted")
FAILED = commitment(Kind.COMMAND, "cd app && pytest -q 2>&1 | tail -20", 1, exit=1)
PASSED = commitment(Kind.COMMAND, "pytest -q", 1, exit=0)
UNKNOWN = commitment(Kind.COMMAND, "pytest -q", 1)
ERROR = commitment(Kind.ERROR, "TypeError: unsupported operand type(s) for +: 'int' and 'str'", 1)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (API, "- The person: don’t touch the **public API**."),
        (API, "Constraints: never touching the public API, small commits"),
        (API, "The public API must not be touched."),
        (API, "It was said:\nDon't touch\nthe public API."),
        (TABS, "They use tabs."),
        (SQLITE, "Decided: use SQLite instead of Postgres for now."),
        (PORT, "It listens on port 8081."),
        (PORT, "http://localhost:8081/x".replace("/x", " works")),
        (VERSION, "Python 3.9."),
        (CHANGED, "- `src/a.py` was changed"),
        (CHANGED, "See ./src/a.py:12 for the rest"),
        (CHANGED, "changed src/a.py: removed the old parser"),
        (DELETED, "Deleted files:\n- src/b.py\n- src/a.py"),
        (DELETED, "src/a.py (removed)"),
        (FAILED, "ran `pytest -q`: exit status 1"),
        (FAILED, "`pytest -q` still fails"),
        (FAILED, "- ran, exit 1: `ruff check`; `pytest -q`"),
        (PASSED, "pytest -q -> exit 0; ruff -> exit 1"),
        (PASSED, "pytest -q passes"),
        (UNKNOWN, "then pytest -q"),
        (ERROR, "the call failed with TypeError: unsupported operand type(s) for +: 'int' and 'str'"),
    ],
)
def test_it_stands_there(found: Commitment, text: str) -> None:
    assert Standing(text).holds(found)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (API, "Touch the public API."),
        (API, "Don't touch the private API."),
        (API, "Don't touch the tests.\nThe public API is small."),
        (TABS, "Never use tabs."),
        (TABS, "Do not ever use tabs"),
        (SQLITE, "use Postgres instead of SQLite"),
        (PORT, "It listens on port 8018."),
        (PORT, "18081 and 80812"),
        (VERSION, "3.9.1, 13.9 and 3.91"),
        (CHANGED, "src/a.pyi and lib/src/a.py were changed"),
        (CHANGED, "src/a.py was deleted"),
        (DELETED, "src/a.py was changed"),
        (DELETED, "src/a.py"),
        (FAILED, "ran `pytest -q`: exit status 2"),
        (FAILED, "ran pytest -q"),
        (FAILED, "pytest -q passes"),
        (PASSED, "ran pytest -q"),
        (PASSED, "pytest -q ended with an error"),
        (PASSED, "pytest -qx -> exit 0"),
        (ERROR, "TypeError: unsupported operand type(s) for -: 'str' and 'int'"),
        (ERROR, ""),
    ],
)
def test_it_does_not_stand_there(found: Commitment, text: str) -> None:
    assert not Standing(text).holds(found)
