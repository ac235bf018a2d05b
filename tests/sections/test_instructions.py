"""The instruction layers: their sections, their four forms, and the cap that they share."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.loader import ContextLayer
from nexus_cli.conversation.tokens.counter import SimpleTokenCounter
from nexus_cli.core.budget import share_room as share
from nexus_cli.sections.contributor import Sources, View
from nexus_cli.sections.contributors.instructions import CONTRIBUTORS
from nexus_cli.sections.instruction_files import instruction_layers
from nexus_cli.sections.section import DROP, Section

INSTRUCTIONS, PATH_RULES = CONTRIBUTORS
COUNT = SimpleTokenCounter().count


def sections(folder: Path, cap: int = 16_384, layers: Sequence[ContextLayer] | None = None) -> tuple[Section, ...]:
    """What the contributor says of `folder`, or of these layers."""
    moment = datetime(2026, 1, 13, 14, 30, tzinfo=UTC)
    sources = Sources(folder, moment, lambda: instruction_layers(folder) if layers is None else layers)
    value = INSTRUCTIONS.read(sources)
    before = json.dumps(value) if len(str(value)) < 1_000_000 else ""
    view = View("m", "chat", 200_000, cap, COUNT)
    made = INSTRUCTIONS.render(value, view)
    if before:
        assert INSTRUCTIONS.render(value, view) == made and json.dumps(value) == before, "rendering is pure"
    return made


def layer(name: Any, folder: str, text: str) -> ContextLayer:
    return ContextLayer(name, Path(folder), Path(folder, "NEXUS.md"), text)


def of(layers: Sequence[ContextLayer], cap: int) -> tuple[Section, ...]:
    return sections(Path("/r/a"), cap, layers)


def test_each_layer_is_a_section_in_order_from_the_outermost() -> None:
    layers = [layer("global", "/g", "G"), *(layer("ancestor", f"/r{n}", str(n)) for n in range(12))]
    found = of([*layers, layer("local", "/r/a", "L")], 5000)
    assert sorted(found, key=lambda section: section.position) == list(found)
    assert (found[0].id, found[1].id, found[-1].id) == (
        "instructions.global",
        "instructions.ancestor.01",
        "instructions.project",
    )
    assert found[-1].full == "# Project Configuration (/r/a)\nL"
    assert (found[-1].order, found[-1].priority, found[-1].source) == (10, 92, "NEXUS.md")
    assert found[0].source == "/g/NEXUS.md"
    assert all(len(section.forms) == 1 for section in found)


def test_the_layers_on_disk_are_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "NEXUS.md").write_text("root rules")
    (tmp_path / "sub" / "AGENTS.md").write_text("sub rules")
    assert [(section.id, section.source) for section in sections(tmp_path / "sub")[1:]] == [
        ("instructions.ancestor.01", "NEXUS.md"),
        ("instructions.project", "sub/AGENTS.md"),
    ]


def test_a_layer_over_the_cap_keeps_head_and_tail_and_says_where_the_rest_is() -> None:
    text = "\n".join(f"rule {number} of many" for number in range(4000))
    [section] = of([layer("local", "/r/a", text)], 1000)
    assert section.least == 1 and section.names == ("full", "shortened", "pointer")
    full, shortened, pointer = section.with_drop_id("d7").forms
    assert full == f"# Project Configuration (/r/a)\n{text}"
    assert COUNT(shortened) <= 1000
    found = re.search(r'recall\("d7", "(\d+):(\d+)"\)', shortened)
    assert found is not None
    head, tail = shortened.split("\n[...")[0], shortened.split("...]\n")[1]
    assert head.rstrip("\n") + "\n" + full[int(found[1]) : int(found[2])] + tail == full
    assert pointer == f'NEXUS.md of /r/a: {COUNT(text):,} tokens, read with recall("d7")'


def test_a_long_layer_that_fits_has_four_forms_each_shorter_than_the_one_before() -> None:
    lines = [f"{'#' * (1 + n % 3)} Heading {n}\n" + f"what to do about {n}\n" * 12 for n in range(120)]
    text = "\n".join(["```sh", "# not a heading", "```", *lines])
    [section] = of([layer("local", "/r/a", text)], 16_384)
    assert section.least == 0 and section.names == ("full", "shortened", "outline", "pointer")
    sizes = [COUNT(form) for form in section.forms]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 1.8 * sizes[1] and sizes[2] <= 300 and sizes[3] < 40
    outline = section.with_drop_id("d1").forms[2]
    assert outline.startswith("# Project Configuration (/r/a)\n# Heading 0\n## Heading 1\n")
    assert "not a heading" not in outline and 'recall("d1")' in outline
    assert re.search(r"\n\.\.\. and \d+ more headings\n", outline)


def test_a_very_long_headline_is_cut_in_the_outline() -> None:
    [section] = of([layer("local", "/r/a", f"# {'word ' * 900}\n" + "text\n" * 900)], 16_384)
    assert max(map(len, section.forms[2].splitlines())) < 140


@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=6), st.integers(500, 16_384))
def test_short_layers_stay_whole_and_all_together_keep_to_the_cap(sizes: list[int], cap: int) -> None:
    found = of([layer("ancestor", f"/r{n}", ("word " * size)[:size]) for n, size in enumerate(sizes)], cap)
    assert sum(COUNT(section.forms[section.least]) for section in found) <= cap
    for section in found:
        assert all(DROP in form for form in section.forms[1:]) and DROP not in section.full
    if sum(COUNT(section.full) + 9 for section in found) <= cap:
        assert all(section.least == 0 for section in found)


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(-10, 3000))
def test_shares_never_exceed_the_need_nor_the_room(sizes: list[int], room: int) -> None:
    shares = share(sizes, room)
    assert all(part <= size for part, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= max(0, room)
    assert shares == sizes or sum(shares) > room - len(sizes) or room <= 0


@pytest.mark.parametrize("cap", [0, 1, 30, 60])
def test_without_room_there_is_still_a_pointer(cap: int) -> None:
    [section] = of([layer("local", "/r/a", "# One\n" + "a rule\n" * 900)], cap)
    assert section.least == 1 and section.forms[-1].startswith("NEXUS.md of /r/a: ")


def test_a_nexus_md_of_fifty_megabytes_becomes_a_section_within_the_cap(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_bytes(b"Always run the tests.\n" * (50 * 1024 * 1024 // 22))
    section = sections(tmp_path)[-1]
    assert section.least == 1
    assert COUNT(section.forms[1]) <= 16_384
    assert len(section.full) > 52_000_000


def test_a_binary_nexus_md_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_bytes(b"\0\1\2")
    (tmp_path / "AGENTS.md").write_text("From agents.")
    value = INSTRUCTIONS.read(Sources.of(tmp_path, datetime(2026, 1, 13, tzinfo=UTC)))
    [notice] = INSTRUCTIONS.notices(value)
    assert notice.startswith(f"{tmp_path / 'NEXUS.md'}: is not a text file") and notice.endswith("; skipped")
    assert [one.source for one in sections(tmp_path)][-1] == "AGENTS.md"
    (tmp_path / "AGENTS.md").unlink()
    assert not [one for one in sections(tmp_path) if one.id == "instructions.project"]
