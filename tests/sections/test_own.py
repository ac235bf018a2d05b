"""A person's own contributors: one text per file, where its front matter puts it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from nexus_cli.config.paths import places
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.sections.contributor import Sources, View, discover
from nexus_cli.sections.reader import SectionReader
from nexus_cli.sections.recipe import Recipe
from nexus_cli.sections.section import Layer, Phase, Section

OWN = [discover()["own"], discover()["own_event"]]
VIEW = View.of("openai/m", "chat", TokenBudget.of(100_000), lambda text: len(text) // 4)


def write(name: str, text: str) -> None:
    folder = places().config / "contributors"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def sections(tmp_path: Path) -> tuple[Sequence[Section], Sequence[str]]:
    reader = SectionReader(Sources.of(tmp_path, local_now()))
    found, skipped, lines = asyncio.run(reader.sections(OWN, VIEW, Recipe(""), 16_000))
    assert not skipped
    return found, lines


def test_without_a_folder_there_is_nothing(tmp_path: Path) -> None:
    assert sections(tmp_path) == ([], [])


def test_a_file_without_front_matter_stands_in_the_persona_of_the_system_text(tmp_path: Path) -> None:
    write("style.md", "Answer in Danish.\n")
    [section], lines = sections(tmp_path)
    assert (section.id, section.order, section.layer) == ("own.style", Phase.PERSONA + 500, Layer.SYSTEM)
    assert section.full == "# style\nAnswer in Danish." and section.source.endswith("contributors/style.md")
    assert (section.priority, section.sticky, lines) == (60, False, [])


def test_front_matter_says_where_it_stands_and_which_of_two_comes_first(tmp_path: Path) -> None:
    write("oncall.md", "---\nphase: memory\nslot: 12\npriority: 70\nlayer: event\n---\nAna is on call.\n")
    write("later.md", "---\nphase: memory\nslot: 13\nlayer: event\n---\nx\n")
    write("rules.md", "---\nphase: constraint\nslot: 999\n---\n# Rules\nNever push.\n")
    found, lines = sections(tmp_path)
    assert [section.id for section in found] == ["own.rules", "own_event.oncall", "own_event.later"] and not lines
    assert (found[1].order, found[1].priority, found[1].layer) == (Phase.MEMORY + 12, 70, Layer.EVENT)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.md", "---\nphase: nowhere\n---\nx", "phase 'nowhere' is none of constraint, persona"),
        ("a.md", "---\nphase: tool_result\n---\nx", "phase 'tool_result' is none of"),
        ("a.md", "---\nslot: 1000\n---\nx", "slot '1000' is not a number from 1 to 999"),
        ("a.md", "---\npriority: high\n---\nx", "priority 'high' is not a number from 0 to 100"),
        ("a.md", "---\nlayer: history\n---\nx", "layer 'history' is none of system, event"),
        ("a.md", "---\nsticky: yes\n---\nx", "sticky is none of phase"),
        ("A b.md", "x", "lower-case letters"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_and_the_others_count(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    write("good.md", "good")
    write(name, text)
    [section], [line] = sections(tmp_path)
    assert section.id == "own.good"
    assert line.startswith(f"contributors/{name}: ") and why in line and line.endswith("; skipped")


def test_a_binary_a_folder_and_an_empty_file_are_no_section(tmp_path: Path) -> None:
    write("empty.md", "---\nslot: 3\n---\n\n")
    (places().config / "contributors" / "folder.md").mkdir()
    (places().config / "contributors" / "binary.md").write_bytes(b"\0\xff\x80" * 50)
    found, lines = sections(tmp_path)
    assert not found and len(lines) == 2
