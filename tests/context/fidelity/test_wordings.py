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
        ("our merchant id is mid_7Qk20Lx", ["mid_7Qk20Lx"]),
        ("nothing goes out before CHG0091223 is signed", ["CHG0091223"]),
        ("the resource is google_sql_database_instance.main", ["google_sql_database_instance.main"]),
        ("MAIL_FROM has to be set or it won't start", ["MAIL_FROM"]),
        ("mqtt is on port 1884 (not 1883, that is the old one)", ["1884"]),
        ("why does `user_id` show up 3 times", []),
        ("it prints `x = 1` and then hangs", []),
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
    ("role", "text", "files"),
    [
        (Role.ASSISTANT, "Gone are `a.py` and `b.py`.", {"a.py": "deleted", "b.py": "deleted"}),
        (Role.ASSISTANT, "`a.py` is now called `b.py`.", {"a.py": "deleted", "b.py": "created"}),
        (Role.ASSISTANT, "`a.py` was renamed to `b.py`.", {"a.py": "deleted", "b.py": "created"}),
        (Role.ASSISTANT, "I split `a.py` into `b.py` and `c.py`.",
         {"a.py": "changed", "b.py": "created", "c.py": "created"}),
        (Role.ASSISTANT, "- [x] pool extracted to `src/pool.rs`", {"src/pool.rs": "created"}),
        (Role.ASSISTANT, "Changed files:\n\n- `a.mk`\n- `b.mk` (new)", {"a.mk": "changed", "b.mk": "created"}),
        (Role.ASSISTANT, "The test is in `tests/a.py`, which I just created.", {"tests/a.py": "created"}),
        (Role.ASSISTANT, "The timeout is 90 now, in conf/app.yml.", {"conf/app.yml": "changed"}),
        (Role.ASSISTANT, "`.travis.yml` no longer exists.", {".travis.yml": "deleted"}),
        (Role.ASSISTANT, "The key is set in `a.toml`.", {}),
        (Role.ASSISTANT, "Nothing has been changed. I only read these:\n\n- `a.php`", {}),
        (Role.ASSISTANT, "`express.json()` was added after the router.", {}),
        (Role.ASSISTANT, "I haven't touched `a.py`.", {}),
        (Role.ASSISTANT, "Should I say that I deleted `a.py`?", {}),
        (Role.USER, "libs/wire got renamed to libs/frame", {"libs/wire": "deleted", "libs/frame": "created"}),
        (Role.USER, "we have always written a.in by hand", {}),
    ],
)
def test_whoever_says_what_was_done_to_a_file_is_understood(role: Role, text: str, files: dict[str, str]) -> None:
    found = of_message(1, Message(role, text))
    assert {c.text: c.state for c in found if c.kind is Kind.FILE} == files


@pytest.mark.parametrize(
    ("name", "arguments", "content", "files"),
    [
        ("write_file", {"path": "a.sh"}, "wrote 58 lines to a.sh", [("a.sh", "created")]),
        ("write_file", {"path": "a.sh"}, "The file a.sh has been updated.", [("a.sh", "changed")]),
        ("rename_file", {"source": "a.sh", "destination": "b.sh"}, "ok", [("a.sh", "deleted"), ("b.sh", "created")]),
        ("str_replace_editor", {"path": "a.sh"}, "1 replacement", [("a.sh", "changed")]),
        ("edit_file", {"path": "a.sh"}, "Error: text not found\n\nThe nearest was:\n\n  x", []),
        ("bash", {"command": "git rm -q a.sh && pytest -q"}, "1 failed\n[exit status 1]", [("a.sh", "deleted")]),
        ("bash", {"command": "rm a.sh && pytest -q"}, "rm: a.sh: Permission denied\n[exit status 1]", []),
    ],
)
def test_a_result_tells_which_files_are_other_than_before(
    name: str, arguments: dict[str, object], content: str, files: list[tuple[str, str]]
) -> None:
    found = of_message(1, Message(Role.TOOL, content, tool_call_id="c1"), ToolCall("c1", name, arguments))
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
