"""The rows about sessions: those of the peer go on in nexus, and those of nexus in the peer; see `rows.py`."""

from __future__ import annotations

from typing import Any

from parity.rows import AGENT, DELEGATE, Look, Played, Row, Step, bash

FIRST = "BEGIN the first words END"
MORE = "BEGIN go on END"
FILE = {"a.txt": "BEGIN old line END\n"}
EDIT: tuple[Step, ...] = (
    ("Read", {"file_path": "TREE/a.txt"}),
    ("Edit", {"file_path": "TREE/a.txt", "old_string": "old", "new_string": "BEGIN new END"}),
)
BUILT: tuple[Step, ...] = (
    (bash("echo BEGIN one END"), bash("echo BEGIN two END")),
    bash("echo BEGIN three END; exit 3"),
    "BEGIN my answer END",
)


def said(played: Played) -> list[tuple[str, str]]:
    """Return what was said in the conversation."""
    return played.said()


def imported(name: str, calls: tuple[Step, ...] = (), **more: Any) -> Row:
    """Return a row whose session the peer begins; the last message is sent there, and by nexus after an import."""
    return Row(name, said, FILE | more.pop("tree", {}), calls, prompt=FIRST, **{"then": (MORE,), **more})


def said_without_results(played: Played) -> list[tuple[str, str]]:
    """Return the same without results: that of an edit shows it in nexus, and in the peer it does not."""
    return [one for one in played.said() if one[0] != "result"]


def exported(name: str, calls: tuple[Step, ...], look: Look = said) -> Row:
    """Return a row whose session nexus begins; its export goes on in Claude Code, as one that began there does."""
    return Row(name, look, FILE, calls, prompt=FIRST, then=(MORE,), exports=True, level="all")


def codex_calls(*lines: str) -> tuple[Step, ...]:
    return (*(("exec_command", {"cmd": line}) for line in lines), "BEGIN my answer END")


SESSION_ROWS = (
    imported("import: words and answers", ("BEGIN my answer END",)),
    imported("import: calls side by side, and one that fails", BUILT),
    imported("import: an edit", EDIT),
    imported("import: names in other scripts", (bash("echo BEGIN ü שלום 日本 END > ü.txt; cat ü.txt"), "BEGIN ü END")),
    imported("import: a large output", (bash("echo BEGIN large END; seq 20000"), "BEGIN read it END")),
    imported("import: a session that was resumed", ("BEGIN a1 END", "BEGIN a2 END"), then=("BEGIN q2 END", MORE)),
    imported(
        "import: the work of an agent",
        (DELEGATE, "BEGIN it is reviewed END"),
        tree={".claude/agents/reviewer.md": AGENT.format(more="color: blue")},
        worker=("BEGIN report END",),
    ),
    imported("codex: import: words and answers", ("BEGIN my answer END",), peer="codex"),
    imported("codex: import: a call", codex_calls("echo BEGIN one END"), peer="codex"),
    imported("codex: import: a call that fails", codex_calls("echo BEGIN three END; exit 3"), peer="codex"),
    imported(
        "codex: import: a session that was resumed",
        ("BEGIN a1 END", "BEGIN a2 END"),
        peer="codex",
        then=("BEGIN q2 END", MORE),
    ),
    exported("export: words and answers", ("BEGIN my answer END",)),
    exported("export: calls side by side, and one that fails", BUILT),
    exported("export: an edit", EDIT, said_without_results),
    exported("export: names in other scripts", (bash("echo BEGIN ü שלום 日本 END > ü.txt; cat ü.txt"), "BEGIN ü END")),
)
