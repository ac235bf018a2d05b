"""The pictures: what a screen shows is in them, as text, and nothing of it is markup."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from programs import need
from screens.picture import LIGHT, Scene, film, svg
from screens.record import record_jobs, record_sessions
from terminal.emulator import Cell, Emulator

HERE = Path(__file__).parent
SESSIONS = ("session", "approval", "context", "context_all", "narrow", "light", "taken_back", "moving")
JOBS = ("night", "manager")
NAMES = SESSIONS + JOBS
FIGURES = re.compile(r"\d[\d.,]*[kM]?|-(?= of \d)")
"""A figure, or the dash in place of one that is not known yet."""
BARS = re.compile(r"([█▓▒░▔])\1+")
PLACES = re.compile(r"/(?:tmp|home|Users|root|var|work)\b")


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


SVG = "{http://www.w3.org/2000/svg}"


def rows(picture: str) -> list[str]:
    """The rows of a picture: their words without figures, which the folder's name changes, and their colours."""
    root = ElementTree.fromstring(picture)
    return _rows(root) if root.find(f"{SVG}defs") is None else [row for scene in scenes(picture) for row in scene]


def scenes(picture: str) -> list[list[str]]:
    """The rows of each scene of a moving picture, which only names them."""
    root = ElementTree.fromstring(picture)
    known = {f"#{node.get('id')}": node for node in root.iter(f"{SVG}g")}
    groups = [node for name, node in known.items() if name.startswith("#s")]
    return [[row for use in group.iter(f"{SVG}use") for row in _rows(known[use.get("href", "")])] for group in groups]


def _rows(root: ElementTree.Element) -> list[str]:
    found: dict[float, list[ElementTree.Element]] = {}
    for node in root.iter(f"{SVG}text"):
        found.setdefault(float(node.get("y", "0")), []).append(node)
    return [_row(sorted(found[place], key=lambda node: float(node.get("x", "0")))) for place in sorted(found)]


def _row(nodes: list[ElementTree.Element]) -> str:
    text = BARS.sub(r"\1", FIGURES.sub("0", " ".join("".join(node.itertext()) for node in nodes)))
    looks = {f"{node.get('fill')} {node.get('font-weight', '')}".strip() for node in nodes}
    return f"{' '.join(text.split())}  {sorted(looks)}"


@pytest.mark.parametrize("name", NAMES)
def test_the_pictures_of_the_program_are_there_and_whole(name: str) -> None:
    shown = words((HERE / f"{name}.svg").read_text())
    assert "nexus" in shown and "gpt-5.6" in shown and len(shown) > 500
    assert not PLACES.search(shown), "the machine they were made on"


def test_a_moving_picture_shows_its_scenes_one_after_the_other() -> None:
    picture = film([Scene(cells("same\r\none"), 1.0), Scene(cells("same\r\ntwo"), 3.0, (1, 1))], title="x")
    assert [[row.split("  ")[0] for row in scene] for scene in scenes(picture)] == [["same", "one"], ["same", "two"]]
    assert picture.count(">same<") == 1, "a row is written once"
    assert "@keyframes k0{0.00%{visibility:visible}25.00%{visibility:hidden}}" in picture
    assert "@keyframes k1{25.00%{visibility:visible}0%{visibility:hidden}}" in picture
    assert picture.count('visibility="hidden"') == 1, "without motion the last scene is seen"


def test_the_moving_picture_is_ten_seconds_of_a_removal_and_its_undo() -> None:
    picture = (HERE / "moving.svg").read_text()
    told = [" ".join(row.partition("  ")[0] for row in scene) for scene in scenes(picture)]
    order = ("> clean up the build files", "✓ bash", "> /undo", "Undid turn", "!!ls -A . src")
    first = [next(number for number, scene in enumerate(told) if words in scene) for words in order]
    assert first == sorted(set(first)), dict(zip(order, first, strict=True))
    assert "rm -rf src && git clean -fdX" in told[first[1]] and "restored .env" in told[first[3]]
    assert all(name in told[-1].partition("!!ls")[2] for name in (".env", "shop.db", "cart.py", "idea.py"))
    seconds = {float(found) for found in re.findall(r"animation:k\d+ ([\d.]+)s", picture)}
    assert len(seconds) == 1 and 8 <= seconds.pop() <= 12
    assert all("gpt-0 · auto" in scene for scene in told)


def check(folder: Path, names: tuple[str, ...]) -> None:
    """After a change that is meant: `python tests/screens/record.py`, and look at the pictures."""
    for name in names:
        # Sorted: what took long has a figure more, and the largest results stand first.
        now, kept = (sorted(rows((place / f"{name}.svg").read_text())) for place in (folder, HERE))
        assert now == kept, f"{name}.svg is old: python tests/screens/record.py"


@pytest.mark.matrix
def test_the_pictures_of_a_session_show_what_the_program_shows(tmp_path: Path) -> None:
    need("bwrap")
    record_sessions(tmp_path)
    check(tmp_path, SESSIONS)


@pytest.mark.matrix
def test_the_pictures_of_the_jobs_show_what_the_program_shows(tmp_path: Path) -> None:
    need("bwrap")
    record_jobs(tmp_path)
    check(tmp_path, JOBS)
