"""`recall`: pieces that fit, that say where they lie, and that together are the original."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nexus_cli.core.services import TextCounter


class Letters:
    """Four letters are a token."""

    def count(self, text: str) -> int:
        return -(-len(text) // 4)


def test_walking_on_as_told_gives_the_whole_back(desk: Any) -> None:
    original = "".join(f"row {i}: {'é漢👍'[i % 3]} data\n" for i in range(3000))
    desk.memory.drops["d3"] = original
    desk.output_cap = 900
    desk.extra = {TextCounter: Letters()}
    parts, span = [], "0:"
    while span:
        result = desk.run("recall", id="d3", range=span)
        assert result.cites == "d3"
        assert Letters().count(result.output) <= 900
        head, _, text = result.output.partition("\n")
        parts.append(text)
        onward = re.search(r'recall\("d3", "(\d+:\d+)"\)', head)
        span = onward[1] if onward else ""
    assert "".join(parts) == original
    assert len(parts) < 40


@pytest.mark.parametrize(
    ("span", "text"), [("2:5", "cde"), (":3", "abc"), ("7:", "hij"), (":", "abcdefghij"), (" 8 : 99 ", "ij")]
)
def test_a_range_is_a_python_slice(desk: Any, span: str, text: str) -> None:
    desk.memory.drops["d1"] = "abcdefghij"
    assert desk.run("recall", id="d1", range=span).output.partition("\n")[2] == text


@pytest.mark.parametrize("span", ["", "5", "a:b", "1:2:3", "-:3"])
def test_a_range_that_is_none_is_told_how_one_looks(desk: Any, span: str) -> None:
    desk.memory.drops["d1"] = "abc"
    assert '"A:B"' in desk.run("recall", id="d1", range=span).error


def test_an_empty_range_is_told_the_length(desk: Any) -> None:
    desk.memory.drops["d1"] = "abc"
    assert desk.run("recall", id="d1", range="5:9").output == "[nothing in this range; d1 has 3 characters]"


@pytest.mark.parametrize(
    "arguments",
    [{"range": "9:"}, {"range": "2:2"}, {"range": "a:b"}, {"range": ""}, {"query": "nope"}, {"id": "d9"}, {"id": "d2"}],
)
def test_a_recall_that_gives_nothing_is_none(desk: Any, arguments: dict[str, str]) -> None:
    desk.memory.drops |= {"d1": "abc", "d2": ""}
    result = desk.run("recall", **({"id": "d1"} | arguments))
    assert not result.cites and not desk.memory.recalls
    assert desk.run("recall", id="d1", query="B").cites == "d1" and desk.memory.recalls == ["d1"]


def test_a_query_shows_every_place_with_its_offsets(desk: Any) -> None:
    text = "x" * 2000 + "Needle" + "y" * 2000 + "needle" + "z" * 2000
    desk.memory.drops["d1"] = text
    output = desk.run("recall", id="d1", query="NEEDLE").output
    assert output.startswith("[2 hits]\n[line 1, characters 1500:2506]\n")
    for low, high, shown in re.findall(r"\[line 1, characters (\d+):(\d+)\]\n([^\n]*)", output):
        assert text[int(low) : int(high)] == shown


@pytest.mark.parametrize(("places", "around"), [(1, 1000), (2, 500), (5, 200), (40, 200)])
def test_the_fewer_the_places_the_more_stands_around_them_in_whole_lines(desk: Any, places: int, around: int) -> None:
    rows = [f"row {n} of what was there" for n in range(4000)]
    for n in range(places):
        rows[50 + n * 90] = f"the needle {n}"
    desk.memory.drops["d1"] = "\n".join(rows)
    pieces = desk.run("recall", id="d1", query="needle").output.split("\n[line ")
    assert pieces[0] == ("[1 hit]" if places == 1 else f"[{places} hits]") and len(pieces) == places + 1
    for piece in pieces[1:]:
        shown = piece.partition("]\n")[2]
        assert 2 * around - 50 < len(shown) < 2 * around + 20
        assert set(shown.rstrip("\n").split("\n")) <= set(rows)


def test_a_query_is_plain_text_and_may_be_absent(desk: Any) -> None:
    desk.memory.drops["d1"] = "a(b"
    assert "[1 hit]" in desk.run("recall", id="d1", query="(").output
    assert desk.run("recall", id="d1", query="nope").output == "['nope' does not occur in characters 0:3]"
    assert desk.run("recall", id="d1", query="a", range="1:").output == "['a' does not occur in characters 1:3]"


def test_many_hits_stay_within_the_cap(desk: Any) -> None:
    desk.memory.drops["d1"] = ("hit " + "." * 600) * 500
    desk.output_cap = 500
    desk.extra = {TextCounter: Letters()}
    output = desk.run("recall", id="d1", query="hit").output
    assert Letters().count(output) <= 500
    assert "more places" in output


def test_an_unknown_id_says_where_ids_stand(desk: Any) -> None:
    result = desk.run("recall", id="d99")
    assert "no drop 'd99'" in result.error
    assert not result.cites


def test_a_blank_query_is_none(desk: Any) -> None:
    desk.memory.drops["d1"] = "some words"
    assert desk.run("recall", id="d1", query=" ").output == desk.run("recall", id="d1").output


@pytest.mark.matrix
def test_places_beyond_what_is_counted_are_a_lower_bound(desk: Any) -> None:
    desk.memory.drops["d1"] = ("x" + "." * 500) * 10_050
    output = desk.run("recall", id="d1", query="x").output
    assert output.startswith("[10,050 hits]") and "[at least " in output.splitlines()[-1]
