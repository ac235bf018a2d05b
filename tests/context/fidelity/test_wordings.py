"""Single sentences: further wordings of what counts, and sentences that only sound like it.

`corpus/wordings.txt` has one in each line: who says it, its kind or `none`, the words; tabs between.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from context.fidelity.evaluate import CORPUS

from nexus_cli.context.fidelity import CommitmentKind, of_message
from nexus_cli.core.message import Message, Role, ToolCall

Kind = CommitmentKind
SPOKEN = (Kind.CONSTRAINT, Kind.CORRECTION, Kind.FAILED, Kind.QUESTION, Kind.PLAN)


def _wordings() -> dict[tuple[str, str], list[str]]:
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in (CORPUS / "wordings.txt").read_text(encoding="utf-8").splitlines():
        role, kind, text = line.split("\t")
        grouped[role, kind].append(text)
    return grouped


@pytest.mark.parametrize(("role", "kind", "texts"), [(*key, texts) for key, texts in _wordings().items()])
def test_each_wording_is_taken_for_what_it_is(role: str, kind: str, texts: list[str]) -> None:
    expected = set() if kind == "none" else {kind}
    for text in texts:
        found = {str(c.kind) for c in of_message(1, Message(Role(role), text)) if c.kind in SPOKEN}
        assert found == expected, text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("the staging db is on 10.0.4.17, port 6543", ["10.0.4.17", "6543"]),
        ("the port is 5433 outside and 5432 inside", ["5433", "5432"]),
        ("see !77 and issue 4312", ["!77", "4312"]),
        ("use node 20", ["20"]),
        ("the seed was 1337", ["1337"]),
        ("baud rate is 9600, not 19200", ["9600"]),
        ("the tolerance is 1e-6", ["1e-6"]),
        ("reply with 422 if the body is empty", ["422"]),
        ("flag --max-old-space-size=4096 is needed", ["--max-old-space-size=4096"]),
        ("the device is /dev/sdb1", ["/dev/sdb1"]),
        ("the tag is release-2024.06", ["release-2024.06"]),
        ("schema version 41", ["41"]),
        ("tests took 12 seconds for 300 files", []),
        ("I changed 14 lines in 3 files", []),
        ("on page 12 of the manual", []),
        ("opened with O_DIRECT", []),
    ],
)
def test_a_value_counts_where_nobody_could_guess_it(text: str, values: list[str]) -> None:
    assert [c.text for c in of_message(1, Message(Role.USER, text)) if c.kind is Kind.IDENTIFIER] == values


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("`docs/x.md` is new.", [("docs/x.md", "created")]),
        ("Added `tests/a.py`; `src/a.py` is unchanged.", [("tests/a.py", "created")]),
        ("I looked at `src/a.rs` and found nothing.", []),
        (
            "I renamed `a.sh` to `b.sh`; the workflow called it, so `ci.yml` is changed too.",
            [("a.sh", "deleted"), ("b.sh", "created"), ("ci.yml", "changed")],
        ),
    ],
)
def test_each_file_of_a_sentence_has_the_state_of_its_own_verb(text: str, files: list[tuple[str, str]]) -> None:
    found = of_message(1, Message(Role.ASSISTANT, text))
    assert [(c.text, c.state) for c in found if c.kind is Kind.FILE] == files


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        ("a.py: created, 6 lines", Kind.FILE, "a.py"),
        ("a.py: 2 edits applied", Kind.FILE, "a.py"),
        ("error: `old` occurs 4 times in a.py", Kind.ERROR, "error: `old` occurs 4 times in a.py"),
        ("Could not find the text to replace", Kind.ERROR, "Could not find the text to replace"),
    ],
)
def test_a_tool_that_edits_either_changed_its_file_or_says_why_not(content: str, kind: Kind, text: str) -> None:
    call = ToolCall("c1", "edit_file", {"path": "a.py"})
    (found,) = of_message(1, Message(Role.TOOL, content, tool_call_id="c1"), call)
    assert (found.kind, found.text) == (kind, text)
