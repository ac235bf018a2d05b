"""`edit_file`: exact, all or none, and every byte that was not meant stays."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.edit_preview import name_changed_lines
from nexus_cli.tools.exact_edit import ExactEdit, apply_edits
from nexus_cli.tools.files import ToolError, decode_file, split_lines, to_lf


def _edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"old": old, "new": new, **more}


def test_an_edit_names_the_new_numbers_of_its_lines_and_is_remembered(desk: Any) -> None:
    path = desk.write("a.py", "".join(f"line {i}\n" for i in range(1, 30)))
    result = desk.run("edit_file", path="a.py", edits=[_edit("line 15\n", "line fifteen\nand more\n")])
    assert result.output == "15-16 line fifteen"
    assert result.changed == ("a.py",)
    assert desk.memory.notes == [(str(path.resolve()), "changed")]
    assert desk.run("edit_file", path="a.py", edits=[_edit("and more\n", "")]).success


def test_several_edits_apply_in_order_each_on_what_the_last_left(desk: Any) -> None:
    path = desk.write("a", "one two")
    desk.run("edit_file", path="a", edits=[_edit("one", "three"), _edit("three two", "done")])
    assert path.read_text() == "done"


def test_when_one_edit_fails_none_counts(desk: Any) -> None:
    path = desk.write("a", "one two")
    error = desk.run("edit_file", path="a", edits=[_edit("one", "1"), _edit("gone", "2")]).error
    assert error.startswith("a: edit 2 of 2: `old` does not occur")
    assert error.endswith("Nothing was changed.")
    assert path.read_text() == "one two"
    assert not desk.memory.files


def test_an_edit_that_is_repeated_is_told_that_it_is_done(desk: Any) -> None:
    path = desk.write("a", "def one():\n    return 1\n\nlast\n")
    edit = _edit("    return 0\n", "    return 1\n")
    error = desk.run("edit_file", path="a", edits=[edit]).error
    assert error.startswith("a: `old` does not occur, but `new` does, at line 2: this edit may already be done"), error
    assert path.read_text() == "def one():\n    return 1\n\nlast\n"
    for text in ("1", " ", ""):  # too little to be sure
        assert "already" not in desk.run("edit_file", path="a", edits=[_edit("gone", text)]).error
    twice = desk.write("b", "x = 1000\nx = 1000\n")
    assert "already" not in desk.run("edit_file", path="b", edits=[_edit("gone", "x = 1000")]).error and twice.exists()


def test_an_edit_that_changes_nothing_is_skipped_with_a_note_and_the_others_apply(desk: Any) -> None:
    path = desk.write("a", "one\ntwo\nthree\n")
    edits = [_edit("one", "1"), _edit("gone", "gone"), _edit("two\n", "two\r\n"), _edit("three", "3")]
    result = desk.run("edit_file", path="a", edits=edits)
    assert result.output.splitlines()[0] == (
        "[edit 2 of 4 skipped: `old` and `new` are the same; "
        "edit 3 of 4 skipped: `old` and `new` are the same except for line endings, which an edit keeps]"
    )
    assert result.success and path.read_text() == "1\ntwo\n3\n"
    refused = desk.run("edit_file", path="a", edits=[_edit("1", "1"), _edit("3", "3")])
    assert refused.error == "a: edit 1 of 2: `old` and `new` are the same\nNothing was changed."


def test_all_says_how_many_places_it_replaced(desk: Any) -> None:
    desk.write("a", "x y\nx\ny x\n")
    assert desk.run("edit_file", path="a", edits=[_edit("x", "z", all=True)]).output == "[3 places]\n1-3 z y"
    edits = [_edit("z", "x", all=True), _edit("x\n", "w\n", all=True), _edit("x y", "v", all=True)]
    assert desk.run("edit_file", path="a", edits=edits).output.startswith(
        "[edit 1 of 3: 3 places; edit 2 of 3: 2 places; edit 3 of 3: 1 place]\n"
    )


@pytest.mark.matrix
def test_changes_far_apart_in_a_long_file_are_named_to_the_model_and_shown_to_the_person(desk: Any) -> None:
    path = desk.write("a.py", "".join(f"def f{n}():\n    pass\n\n" for n in range(2400)))
    edits = [_edit("def f4():\n", "def g4():\n"), _edit("def f2390():\n", "# here\ndef f2390():\n")]
    result = desk.run("edit_file", path="a.py", edits=edits)
    assert result.output == "13 def g4():\n7171 # here"
    assert [line for line in result.diff.split("\n")[2:] if line[:1] in ("+", "-")] == [
        "-def f4():",
        "+def g4():",
        "+# here",
    ]
    assert path.read_text().count("\n") == 7201


def test_the_text_that_the_model_has_just_written_is_not_sent_again(desk: Any) -> None:
    desk.write("a", "".join(f"line {n}\n" for n in range(1, 21)))
    added = "".join(f"new {n}\n" for n in range(51))
    result = desk.run("edit_file", path="a", edits=[_edit("line 9\n", "line 9\n" + added)])
    assert result.output == "10-60 new 0"
    assert result.diff.count("\n+new ") == 51, "the person sees them"
    edits = [_edit("line 2\n", "line two\n"), _edit(added, ""), _edit("line 20\n", "")]
    result = desk.run("edit_file", path="a", edits=edits)
    assert result.output == "2 line two\n-51 lines after 9\n-1 line after 19"
    edits = [_edit("line 1\nline two\n", ""), _edit("line 5\n", "")]
    assert desk.run("edit_file", path="a", edits=edits).output == "-2 lines at the top\n-1 line after 2"


@pytest.mark.matrix
def test_the_changed_lines_are_named_up_to_a_bound_and_how_far_they_go(desk: Any) -> None:
    desk.write("a", "".join(f"x\nrow {n}\n" for n in range(1000)))
    output = desk.run("edit_file", path="a", edits=[_edit("x\n", "z\n", all=True)]).output
    assert output.startswith("[1,000 places]\n1 z\n3 z\n5 z\n")
    assert output.endswith("\n199 z\n[further changes: 900; read lines 201-1999 to see them]")


def test_a_change_is_named_by_its_first_line_that_is_not_blank(desk: Any) -> None:
    desk.write("a", "one\ntwo\n")
    edits = [_edit("one\n", f"one\n\n\n  {'x' * 100}\ny\n"), _edit("two", "two\n\n")]
    assert desk.run("edit_file", path="a", edits=edits).output == f"4-5 {'x' * 60}...[40 more characters]\n7-8"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        (b"a\n", "b\n", b"a\nb\n"),
        (b"a\n", "b", b"a\nb\n"),
        (b"a\n", "\nb\n", b"a\n\nb\n"),
        (b"a", "b", b"a\nb"),
        (b"a\r\n", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\n", "b\r\n", b"a\nb\n"),
        (b"a\rb\r", "c\n", b"a\rb\rc\r"),
        (b"", "b\n", b"b\n"),
        (b"\xef\xbb\xbfa\n", "\xe9", b"\xef\xbb\xbfa\n\xc3\xa9\n"),
    ],
)
def test_an_empty_old_text_appends_lines(desk: Any, before: bytes, new: str, after: bytes) -> None:
    path = desk.write("a", before)
    result = desk.run("edit_file", path="a", edits=[_edit("", new)])
    assert result.success and path.read_bytes() == after
    assert desk.run("edit_file", path="none", edits=[_edit("", new)]).error


def test_text_that_occurs_twice_is_refused_with_its_lines(desk: Any) -> None:
    desk.write("a", "x\ny\nx\n\nx\n")
    assert "`old` occurs 3 times (lines 1, 3, 5)" in desk.run("edit_file", path="a", edits=[_edit("x", "z")]).error
    assert desk.run("edit_file", path="a", edits=[_edit("x", "z", all=True)]).success
    assert (desk.project / "a").read_text() == "z\ny\nz\n\nz\n"


def test_overlapping_places_are_two_places(desk: Any) -> None:
    desk.write("a", "aaa")
    assert "occurs 2 times" in desk.run("edit_file", path="a", edits=[_edit("aa", "b")]).error


def test_the_nearest_candidates_are_named_with_their_lines() -> None:
    text = "import os\n\n\ndef parse(line):\n    return line.split(',')\n\n\ndef other():\n    pass\n"
    with pytest.raises(ToolError) as told:
        apply_edits(text, [ExactEdit("def parse(lines):\n    return line.split(',')\n", "x")], StopFlag())
    assert "line 4:\ndef parse(line):\n    return line.split(',')" in str(told.value)
    with pytest.raises(ToolError, match="only white space differs"):
        apply_edits(text, [ExactEdit("def parse(line):\n\treturn line.split(',')", "x")], StopFlag())
    with pytest.raises(ToolError) as far:
        apply_edits(text, [ExactEdit("completely unrelated 123456789", "x")], StopFlag())
    assert "Nearest" not in str(far.value)
    long = "".join(f"line {n}\n" for n in range(1, 31))
    with pytest.raises(ToolError, match=r"\nline 20\n\[lines 21-30 are left out: read them\]$"):
        apply_edits(long, [ExactEdit(long.replace("line 30", "line 40"), "x")], StopFlag())


def test_parts_of_long_lines_between_which_a_line_came_are_shown() -> None:
    text = (
        "# 1.2\n\n_(unreleased)_\n\n- somebody else's line\n- Added `strutils.ellipsize`, which cuts at words"
        + ", so" * 40
    )
    with pytest.raises(ToolError) as told:
        apply_edits(text, [ExactEdit("_(unreleased)_\n\n- Added `strutils.ellipsize`", "x")], StopFlag())
    assert "Nearest:" in str(told.value) and "- somebody else's line\n- Added `strutils" in str(told.value)


def test_beside_a_line_that_has_the_text_in_other_characters_no_less_similar_line_is_shown() -> None:
    text = (
        "    limit = width - 6 - max(len(cmd[0]) for cmd in commands)\n"
        "    for subcommand, cmd in commands:\n"
        "    for name in multi.list_commands(ctx):\n"
    )
    for old in ("len(cmd[0])  for cmd in commands", "len(cmd[0]) for cmd in\u00a0commands"):
        with pytest.raises(ToolError, match=r"Nearest:\nline 1:\n.*commands\)$"):
            apply_edits(text, [ExactEdit(old, "x")], StopFlag())


@pytest.mark.matrix
def test_looking_for_candidates_compares_no_long_texts_and_ends_when_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(difflib.SequenceMatcher):  # type: ignore[type-arg]
        def set_seqs(self, a: Any, b: Any) -> None:
            assert len(a) <= 400 and len(b) <= 400, "the time grows with the square of the lengths"
            super().set_seqs(a, b)

    monkeypatch.setattr(difflib, "SequenceMatcher", Watched)
    text = "\n".join(f"{i % 7},{'01' * 190}" for i in range(60))
    with pytest.raises(ToolError, match="Nearest"):
        apply_edits(text, [ExactEdit(text[:6000] + "!", "x")], StopFlag())
    stop = StopFlag()
    stop.press()
    with pytest.raises(ThreadStopped):
        apply_edits(text, [ExactEdit(text[:6000] + "!", "x")], stop)


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [_edit("", "")],
        [_edit("a", "a")],
        [_edit("a", "a"), _edit("x", "x")],
        [_edit("a", "b"), _edit("b", "a")],
    ],
)
def test_an_edit_that_means_nothing_is_refused(desk: Any, edits: list[dict[str, Any]]) -> None:
    desk.write("a", "a")
    assert desk.run("edit_file", path="a", edits=edits).error
    assert (desk.project / "a").read_text() == "a"


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        (b"a\r\nb\r\nc\r\n", _edit("a\nb", "A\nB"), b"A\r\nB\r\nc\r\n"),
        (b"a\r\nb\nc\r\nd\n", _edit("b\nc\nd", "b\nX\nd"), b"a\r\nb\nX\r\nd\n"),
        (b"a\r\nb\r\n", _edit("b", "b\nc"), b"a\r\nb\r\nc\r\n"),
        (b"a\nb\r\n", _edit("a", "a\nc"), b"a\nc\nb\r\n"),
        (b"a\nb\nc\n", _edit("a\r\nb\r\n", "a\r\nB\r\n"), b"a\nB\nc\n"),
        (b"a\nb\n", _edit("a\nb", "a\r\nB"), b"a\nB\n"),
        (b"a\r\nb\nc\r\nd\n", _edit("a\nb\nc\nd\n", "a\nx\ny\nc\nd\n"), b"a\r\nx\ny\nc\r\nd\n"),
        (b"a\nb\r\nc\nd\r\n", _edit("a\nb\nc\nd\n", "b\nn\nd\n"), b"b\r\nn\nd\r\n"),
        (b"a\r\nb\r\n", _edit("\nb", "\nB"), b"a\r\nB\r\n"),
        (b"a\r\nb\r\n", _edit("a\r\n", "a\r\nx\r\ny\n"), b"a\r\nx\r\ny\r\nb\r\n"),
        (b"a\r\r\nb\r\r\n", _edit("a\r\n", "A\r\n"), b"A\r\r\nb\r\r\n"),
        (b"a\rb\r", _edit("a\nb", "a\nx\nb"), b"a\rx\rb\r"),
        (b"a\nb", _edit("b", "b\r\n"), b"a\nb\n"),
        (b"\xef\xbb\xbfa\n", _edit("a", "\ufeffb"), b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\nb\n", _edit("\ufeffa", "\ufeffb"), b"\xef\xbb\xbfb\nb\n"),
        (b"a\nb\n", _edit("b", "\ufeffc"), b"a\n\xef\xbb\xbfc\n"),
        (b"a\nb\n", _edit("a", "\ufeffa"), b"\xef\xbb\xbfa\nb\n"),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\nb\n", _edit("b", "c"), b"\xef\xbb\xbf\xef\xbb\xbfa\nc\n"),
        (b"a\n", _edit("", "\ufeffb"), b"a\n\xef\xbb\xbfb\n"),
        (b"a\n\xef\xbb\xbfb\n", _edit("\ufeffb", "c"), b"a\nc\n"),
        (b"a\nb\n", _edit("\ufeffa", "\ufeffc"), b"c\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", _edit("\ufeffb", "\ufeffc"), b"\xef\xbb\xbfa\nc\n"),
        ("\ufeffa\nb\n".encode("utf-16-le"), _edit("a\n", "\ufeffc\n"), "\ufeffc\nb\n".encode("utf-16-le")),
        (b"a\r\nb", _edit("b", "b\n"), b"a\r\nb\r\n"),
        (b"a\nb", _edit("b", "c"), b"a\nc"),
        (b"\xef\xbb\xbfa\n", _edit("a", "\xe9"), b"\xef\xbb\xbf\xc3\xa9\n"),
        ("Müller\n".encode("latin-1"), _edit("ller", "lé"), "Mülé\n".encode("latin-1")),
        ("é\n".encode() * 20 + b"\xff x\n", _edit("x", "ü"), "é\n".encode() * 20 + b"\xff \xc3\xbc\n"),
        ("\ufeffa\r\nb".encode("utf-16-be"), _edit("a\n", "ç\n"), "\ufeffç\r\nb".encode("utf-16-be")),
        (b"a\x0cb\x1b[0m\x85\n", _edit("b", "c"), b"a\x0cc\x1b[0m\x85\n"),
    ],
)
def test_line_ends_encoding_and_marks_are_the_files_own(
    desk: Any, before: bytes, edit: dict[str, Any], after: bytes
) -> None:
    path = desk.write("a", before)
    result = desk.run("edit_file", path="a", edits=[edit])
    assert result.success, result.error
    assert path.read_bytes() == after


def test_a_file_that_changed_since_it_was_read_is_changed_only_where_the_quoted_text_still_is(desk: Any) -> None:
    path = desk.write("a", "one\ntwo\n")
    desk.run("read_file", path="a")
    path.write_text("one\n2\n")
    gone = desk.run("edit_file", path="a", edits=[_edit("two", "zwei")])
    stale = "a: changed on disk since it was read: read it again\n"
    assert gone.error == f"{stale}`old` does not occur\nNothing was changed."
    gone = desk.run("edit_file", path="a", edits=[_edit("one\ntwo", "zwei")])
    assert gone.error.startswith(f"{stale}`old` does not occur. Nearest:\nline 1:\none\n2\n"), "enough to go on"
    assert path.read_text() == "one\n2\n"
    for old, new in (("one", "1"), ("1", "eins")):
        result = desk.run("edit_file", path="a", edits=[_edit(old, new)])
        assert result.output.startswith("[the file changed on disk since it was read: read it"), result
    assert path.read_text() == "eins\n2\n"
    refused = desk.run("write_file", path="a", content="all\n")
    assert "changed on disk" in refused.error, "an edit is no reading: the other change was never seen"
    desk.run("read_file", path="a")
    assert desk.run("edit_file", path="a", edits=[_edit("2", "zwei")]).output == "2 zwei"


@pytest.mark.parametrize("data", [b"\0\1\2", b"\x89PNG\r\n\x1a\n\0"])
def test_binary_files_are_refused(desk: Any, data: bytes) -> None:
    desk.write("a", data)
    assert desk.run("edit_file", path="a", edits=[_edit("a", "b")]).error.startswith("a: is binary")


def test_a_letter_that_the_encoding_lacks_is_an_error(desk: Any) -> None:
    path = desk.write("a", "Müller".encode("latin-1"))
    assert "is cp1252, which has no '→'" in desk.run("edit_file", path="a", edits=[_edit("ller", "→")]).error
    assert path.read_bytes() == "Müller".encode("latin-1")


def test_a_change_of_line_ends_alone_is_no_edit_and_one_of_the_last_line_is_one(desk: Any) -> None:
    path = desk.write("a", "a\nb\n")
    assert "line endings, which an edit keeps" in desk.run("edit_file", path="a", edits=[_edit("a\n", "a\r\n")]).error
    result = desk.run("edit_file", path="a", edits=[_edit("b\n", "b")])
    assert result.output == "2 b\n\\ No newline at end of file"
    assert path.read_bytes() == b"a\nb"


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("x\nsay \u2018it\u2019s\u2019\n", "say 'it's'"),
        ("a \u2013 b", "a - b"),
        ("a - b", "a \u2014 b"),
        ("and a \u2013 b", "a - b"),
        ("caf\u00e9", "cafe\u0301"),
        ("cafe\u0301 x", "caf\u00e9 x"),
        ("\uff11\uff12 \uff08", "12 ("),
        ("foo\u200bbar", "foobar"),
        ("foobar", "foo\u200bbar"),
        ("x\u2026y", "x...y"),
        ("\ud55c", "\u1112\u1161\u11ab"),
        ("e\u0323\u0302!", "e\u0302\u0323!"),
        ("\u2212 1", "- 1"),
    ],
)
def test_of_characters_that_only_look_alike_the_error_says_so_and_nothing_is_edited(
    desk: Any, text: str, old: str
) -> None:
    path = desk.write("a", text)
    error = desk.run("edit_file", path="a", edits=[_edit(old, "new")]).error
    assert "only characters that look alike differ" in error, error
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize(("text", "old"), [("x = f(a, b)", "f(a,  b)"), ("x = f(a,\tb) + 1", "f(a, b)")])
def test_of_a_part_of_a_line_that_differs_in_blanks_the_error_says_so(text: str, old: str) -> None:
    with pytest.raises(ToolError) as told:
        apply_edits(text, [ExactEdit(old, "n")], StopFlag())
    assert "(only white space differs). Quote" in str(told.value)


def test_texts_that_differ_in_more_are_not_called_alike() -> None:
    pairs = (("caf\u00e9", "cafe"), ("ab", "a b"), ("a-b", "a_b"), ("x", "\u200b"), ("Stra\u00dfe", "Strasse"))
    for text, old in pairs:
        with pytest.raises(ToolError) as told:
            apply_edits(text, [ExactEdit(old, "n")], StopFlag())
        assert "look alike" not in str(told.value), (text, old)


@pytest.mark.matrix
def test_the_nearest_places_do_not_overlap_and_a_bounded_count_says_so() -> None:
    text = "\n".join(["}", "    x = 1", "    x = 1", "    x = 1", "    x = 1", "}"] * 2)
    with pytest.raises(ToolError) as told:
        apply_edits(text, [ExactEdit("    x = 1\n    x = 1\n    x = 2\n", "n")], StopFlag())
    starts = [int(number) for number in re.findall(r"^line (\d+):$", str(told.value), re.MULTILINE)]
    assert len(starts) > 1 and all(abs(a - b) >= 3 for a in starts for b in starts if a != b)
    assert len(set(starts)) == len(starts)
    with pytest.raises(ToolError, match=r"occurs 3 times \(lines 1, 2\): add"):
        apply_edits("x x\nx", [ExactEdit("x", "y")], StopFlag())
    with pytest.raises(ToolError, match="Nearest in the first 20,000 lines:"):
        apply_edits("wanted is here\n" + "\n" * 20_001, [ExactEdit("wanted is there", "y")], StopFlag())
    with pytest.raises(ToolError, match=r"at least 100,000 times \(line 1\)"):
        apply_edits("x" * 100_005, [ExactEdit("x", "y")], StopFlag())
    assert apply_edits("x" * 100_005, [ExactEdit("x", "y", all=True)], StopFlag()).text == "y" * 100_005


@pytest.mark.matrix
def test_a_search_in_equal_lines_is_linear() -> None:
    # Sizes at which comparing every place in full takes minutes, without a moment to stop.
    for end in ("\n", "\r\n"):
        text = f"0,0,0,0{end}" * 100_000
        with pytest.raises(ToolError, match="`old` does not occur"):
            apply_edits(text, [ExactEdit("0,0,0,0\n" * 10_000 + "1", "x")], StopFlag())
        with pytest.raises(ToolError, match="at least "):
            apply_edits(text, [ExactEdit("0,0,0,0\n" * 4_000, "x")], StopFlag())
        edited = apply_edits(f"{text}1", [ExactEdit("0,0,0,0\n" * 10_000 + "1", "x\n")], StopFlag()).text
        assert edited == f"0,0,0,0{end}" * 90_000 + f"x{end}"


def test_an_edit_crosses_mixed_line_ends_exactly() -> None:
    text = "a\r\nb\n\r\r\nc\r\na\nb\n"
    assert apply_edits(text, [ExactEdit("b\n\nc\n", "B\n\nC\n")], StopFlag()).text == "a\r\nB\n\r\r\nC\r\na\nb\n"
    assert apply_edits(text, [ExactEdit("a\r\nb", "x", all=True)], StopFlag()).text == "x\n\r\r\nc\r\nx\n"


contents = st.lists(
    st.tuples(st.text("abc é\t", max_size=6), st.sampled_from(["\n", "\r\n", "\r", ""])), max_size=12
).map(lambda lines: "".join(text + end for text, end in lines))
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"])


@pytest.mark.matrix
@given(contents, contents, st.text("XYZ\n", min_size=1, max_size=8), encodings)
def test_every_byte_outside_the_match_stays(
    new_desk: Callable[[], Any], before: str, after: str, new: str, encoding: str
) -> None:
    desk = new_desk()
    whole = f"{before}<<old>>{after}".encode(encoding)
    path = desk.write("a", whole)
    decoded = decode_file(whole)
    assert decoded is not None
    desk.run("edit_file", path="a", edits=[_edit("<<old>>", new)])
    head, tail = whole.split(decoded.encode("<<old>>")[len(decoded.bom) :])
    data = path.read_bytes()
    assert data.startswith(head)
    assert data.endswith(tail)
    middle = data[len(head) : len(data) - len(tail)].decode(decoded.encoding)
    assert re.sub("\r\n|\r", "\n", middle) == new


@given(contents, st.data())
def test_an_old_text_as_it_was_shown_is_found_whatever_the_line_ends(text: str, data: st.DataObject) -> None:
    shown = text.replace("\r\n", "\n")
    low = data.draw(st.integers(0, max(0, len(shown) - 1)))
    old = shown[low : data.draw(st.integers(low, len(shown)))]
    if not old or old == "Z":
        return
    try:
        after = apply_edits(text, [ExactEdit(old, "Z")], StopFlag()).text
    except ToolError as refused:
        assert "occurs" in str(refused) and "times" in str(refused)
    else:
        assert after.replace("\r\n", "\n").count("Z") == 1
        assert len(after) <= len(text)


@given(contents, contents)
def test_no_changed_line_means_no_change_of_text(before: str, after: str) -> None:
    same = before.replace("\r\n", "\n") == after.replace("\r\n", "\n")
    assert (name_changed_lines(before, after) == "") == same


@given(contents, contents, st.integers(-1, 60))
def test_the_lines_that_are_not_named_stand_in_both_texts(before: str, after: str, compared: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nexus_cli.tools.edit_preview._COMPARED", compared)
        named = name_changed_lines(before, after)
    old, new = ([(body, bool(end)) for body, end in split_lines(to_lf(text))] for text in (before, after))
    removed = sum(int(number) for number in re.findall(r"^-(\d+) lines? after", named, re.MULTILINE))
    spans = re.findall(r"^(\d+)(?:-(\d+))?(?: |$)", named, re.MULTILINE)
    changed = {line for first, last in spans for line in range(int(first), int(last or first) + 1)}
    kept = [line for number, line in enumerate(new, 1) if number not in changed and line[0].strip()]
    rest = iter(old)
    assert all(line in rest for line in kept) and len(old) - len(kept) >= removed


FILE = "def one():\n    return 1\n\n\ndef two(name):\n\tif name == 'x':\n\t\treturn 2\n"
OFFERED = {
    "white space": ("if name  == 'x':\n    return 2", "only white space differs", "\tif name == 'x':\n\t\treturn 2"),
    "a blank more": ("if name=='x' :\n  return 2", "only white space differs", "\tif name == 'x':\n\t\treturn 2"),
    "quotes": ('\tif name == "x":\n\t\treturn 2', "quotes or look-alike", "\tif name == 'x':\n\t\treturn 2"),
    "quotes and a blank": ('\tif name\u00a0== "x":', "quotes or look-alike", "\tif name == 'x':"),
    "curly quotes": ("\tif name == \u2018x\u2019:", "look alike", "\tif name == 'x':"),
    "numbers": ("5: def two(name):\n6: \tif name == 'x':\n", "line numbers", "def two(name):\n\tif name == 'x':"),
    "numbers of cat": ("     1\tdef one():\n     2\t    return 1", "line numbers", "def one():\n    return 1"),
    "both": ("5|def two( name ):\n6|  if name == 'x':", "line numbers", "def two(name):\n\tif name == 'x':"),
}


@pytest.mark.parametrize("kind", OFFERED)
def test_the_only_passage_that_is_spelled_otherwise_is_offered_whole_and_never_taken(desk: Any, kind: str) -> None:
    old, why, offered = OFFERED[kind]
    path = desk.write("a.py", FILE)
    error = desk.run("edit_file", path="a.py", edits=[_edit(old, "pass")]).error
    assert why in error and "as `old`:" in error, error
    assert error.split("as `old`:\n")[1] == f"{offered}\nNothing was changed.", error
    assert path.read_text() == FILE
    assert desk.run("edit_file", path="a.py", edits=[_edit(offered, "pass")]).success, "what is offered fits"


def test_a_passage_that_is_there_twice_or_only_looks_numbered_is_not_offered(desk: Any) -> None:
    desk.write("a", "  x = 1\ny\n    x = 1\n10: a\n12: b\n")
    for old in ("\tx = 1\n", "1: x  = 1", "10: a\n11: b", "gone"):
        assert "as `old`:" not in desk.run("edit_file", path="a", edits=[_edit(old, "z")]).error, old


def test_a_long_passage_of_which_few_lines_differ_is_offered_as_a_diff(desk: Any) -> None:
    lines = [f"    value_{number} = {number}" for number in range(60)]
    path = desk.write("a", "\n".join(lines) + "\n")
    old = [*lines[5:20], "  value_20 = 20", "value_21  = 21", *lines[22:40], "value_40 = 40", *lines[41:55]]
    error = desk.run("edit_file", path="a", edits=[_edit("\n".join(old), "z")]).error
    shown = (
        "Lines 6-55 would match if you changed `old` as follows:\n@@ line 21 @@\n-  value_20 = 20\n+    value_20 = 20\n"
        "-value_21  = 21\n+    value_21 = 21\n@@ line 41 @@\n-value_40 = 40\n+    value_40 = 40\nNothing was changed."
    )
    assert error.endswith(shown) and path.read_text() == "\n".join(lines) + "\n", error


def test_a_long_passage_is_offered_whole(desk: Any) -> None:
    lines = [f"    value_{number} = {number}" for number in range(60)]
    desk.write("a", "\n".join(lines) + "\n")
    error = desk.run("edit_file", path="a", edits=[_edit("\n".join(map(str.strip, lines[5:55])), "z")]).error
    assert "Use lines 6-55 as `old`:\n" + "\n".join(lines[5:55]) in error
