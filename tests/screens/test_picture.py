"""The pictures: what a screen shows is in them, as text, and nothing of it is markup."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from screens.picture import LIGHT, svg
from terminal.emulator import Cell, Emulator

HERE = Path(__file__).parent
NAMES = ("session", "approval", "context", "narrow", "light")


def cells(text: str, columns: int = 30, rows: int = 3) -> list[list[Cell]]:
    made = Emulator(columns, rows)
    made.feed(text.encode())
    return [[made.buffer[row][place] for place in range(columns)] for row in range(rows)]


def words(picture: str) -> str:
    return " ".join(text for text in ElementTree.fromstring(picture).itertext() if text.strip())


def test_text_is_escaped_and_keeps_its_place() -> None:
    picture = svg(cells("a <b> & \"c\" 'd'\r\n  \x1b[31mred\x1b[0m"), title="<x>")
    assert "a <b> & \"c\" 'd'" in words(picture)
    red = next(node for node in ElementTree.fromstring(picture).iter() if node.text == "red")
    black = next(node for node in ElementTree.fromstring(picture).iter() if node.text and node.text.startswith("a <b>"))
    assert float(red.get("x", "0")) - float(black.get("x", "0")) == pytest.approx(2 * 8.4)
    assert red.get("fill") != black.get("fill") and float(red.get("y", "0")) > float(black.get("y", "0"))


def test_wide_and_joined_characters_do_not_move_what_follows() -> None:
    picture = svg(cells("日本 👩\u200d👩 end\r\nxxxxxxxxx end"), title="")
    ends = [node for node in ElementTree.fromstring(picture).iter() if node.text and node.text.endswith("end")]
    right = [float(node.get("x", "0")) + float(node.get("textLength", "0")) for node in ends]
    assert right[0] == pytest.approx(right[1])


def test_colours_turned_round_have_a_ground_of_their_own() -> None:
    picture = svg(cells("\x1b[7mturned\x1b[0m"), title="", palette=LIGHT)
    assert f'fill="{LIGHT.text}"' in picture and f'<text x="14" y="51.5" fill="{LIGHT.ground}"' in picture


@pytest.mark.parametrize("name", NAMES)
def test_the_pictures_of_the_program_are_there_and_whole(name: str) -> None:
    shown = words((HERE / f"{name}.svg").read_text())
    assert "nexus" in shown and "gpt-4o" in shown and len(shown) > 500
