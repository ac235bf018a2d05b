"""Contributors: the contract of the registry, and each one of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.context.contributors import Contributor, Sources, View, discover, names
from nexus_cli.context.contributors.instructions import render as render_instructions
from nexus_cli.context.contributors.instructions import share
from nexus_cli.context.loader import ContextLayer
from nexus_cli.context.prompts import fill, prompt
from nexus_cli.context.section import DROP, Layer, Section
from nexus_cli.context.sysinfo import Host
from nexus_cli.context.tokens import SimpleTokenCounter, TiktokenCounter
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.errors import NexusError
from nexus_cli.core.paths import defaults

START = datetime(2026, 1, 13, 14, 30, 12, tzinfo=timezone(timedelta(hours=1)))
COUNTER = TiktokenCounter("o200k_base")
VIEW = View.of("openai/m", "chat", TokenBudget.of(200_000), COUNTER.count)
ALL = discover()
each = pytest.mark.parametrize("contributor", ALL.values(), ids=ALL)


def sources(folder: Path, **seams: Any) -> Sources:
    plain = {
        "host": lambda: Host("Linux", "6.1", 'PRETTY_NAME="Debian"', {"SHELL": "/usr/bin/zsh"}),
        "clock": lambda: START,
        "notices": lambda: ["max_steps was lowered to 3"],
    }
    return Sources.of(folder, START, **{**plain, **seams})


def made(contributor: str, given_: Sources, view: View = VIEW) -> tuple[Section, ...]:
    chosen = ALL[contributor]
    return chosen.render(asyncio.run(chosen.read(given_)), view)


def test_the_registry_finds_every_file_under_its_own_name() -> None:
    assert tuple(ALL) == names() == ("clock", "environment", "instructions", "notices", "rules", "session_start")


@each
def test_the_id_of_a_contributor_is_its_module_and_begins_those_of_its_sections(
    contributor: Contributor, tmp_path: Path
) -> None:
    assert ALL[contributor.id] is contributor
    found = made(contributor.id, sources(tmp_path))
    assert found
    for section in found:
        assert section.id == contributor.id or section.id.startswith(f"{contributor.id}.")
        assert section.layer is contributor.layer
        assert section.sticky
        assert section.source


@each
def test_a_stored_value_renders_to_the_same_sections(contributor: Contributor, tmp_path: Path) -> None:
    value = asyncio.run(contributor.read(sources(tmp_path)))
    stored = json.loads(json.dumps(value))
    assert stored == value
    assert contributor.render(stored, VIEW) == contributor.render(value, VIEW)


@each
def test_the_static_layer_does_not_change_while_time_passes_and_notices_come(
    contributor: Contributor, tmp_path: Path
) -> None:
    later = sources(tmp_path, clock=lambda: START + timedelta(days=3), notices=lambda: ["other"])
    same = made(contributor.id, sources(tmp_path)) == made(contributor.id, later)
    assert same or contributor.layer is Layer.EVENT


def test_ids_and_places_of_all_sections_are_different(tmp_path: Path) -> None:
    found = [section for name in ALL for section in made(name, sources(tmp_path))]
    assert len({section.id for section in found}) == len({section.position for section in found}) == len(found)
    system = sorted((s for s in found if s.layer is Layer.SYSTEM), key=lambda s: s.position)
    assert [section.id for section in system] == ["rules", "instructions.global", "environment"]


def test_rules_and_environment_stay_short(tmp_path: Path) -> None:
    found = [*made("rules", sources(tmp_path)), *made("environment", sources(tmp_path))]
    assert sum(COUNTER.count(section.full) for section in found) <= 450


# --- rules and prompts


def test_the_rules_come_first_and_do_not_depend_on_the_persons_files(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("two lines\nof my own")
    [section] = made("rules", sources(tmp_path))
    assert (section.order, section.priority, section.sticky) == (0, 100, True)
    assert section.full == prompt("system")
    for word in ("recall", "left out", "[nexus: ...]", "<stdin>"):
        assert word in section.full


def test_the_summary_prompt_is_filled_with_its_bound() -> None:
    text = prompt("summarize", tokens=1234, instructions="Keep the plan.")
    assert "at most 1234 tokens" in text
    assert text.endswith("Answer with the summary alone.\n\nKeep the plan.")
    assert "{" not in text
    assert prompt("summarize", tokens=1, instructions="").endswith("Answer with the summary alone.")


def test_every_packaged_prompt_can_be_read() -> None:
    found = sorted(path.stem for path in (defaults() / "prompts").glob("*.md"))
    assert {"summarize", "system"} <= set(found)
    assert all(prompt(name) == prompt(name).strip() != "" for name in found)


def test_a_missing_prompt_is_named() -> None:
    with pytest.raises(NexusError, match=r"no-such\.md"):
        prompt("no-such")


@given(st.text("{}ab_"), st.text("{}ab_ \\1"))
def test_filling_is_one_pass_and_leaves_other_braces(text: str, value: str) -> None:
    assert fill("{a}", a=value) == value
    assert fill(text, other=value) == text
    assert fill("<{a}{b}{a}> {c} { } {{a}}", a=value, b="") == f"<{value}{value}> {{c}} {{ }} {{{value}}}"


# --- instructions


def layer(name: Any, folder: str, text: str) -> ContextLayer:
    return ContextLayer(name, Path(folder), Path(folder, "NEXUS.md"), text)


def instructions(layers: Sequence[ContextLayer], cap: int) -> tuple[Section, ...]:
    view = replace(VIEW, instruction_cap=cap, count=SimpleTokenCounter().count)
    return made("instructions", sources(Path("/r/a"), instructions=lambda: layers), view)


def test_each_layer_is_a_section_in_order_from_the_outermost() -> None:
    layers = [layer("global", "/g", "G"), *(layer("ancestor", f"/r{n}", str(n)) for n in range(12))]
    found = instructions([*layers, layer("local", "/r/a", "L")], 5000)
    assert sorted(found, key=lambda section: section.position) == list(found)
    assert (found[0].id, found[1].id, found[-1].id) == (
        "instructions.global",
        "instructions.ancestor.01",
        "instructions.project",
    )
    assert found[-1].full == "# Project Configuration (/r/a)\nL"
    assert (found[-1].order, found[-1].priority, found[-1].source) == (10, 92, "NEXUS.md")
    assert found[0].source == "/g/NEXUS.md"
    assert all(section.cut is None and len(section.forms) == 1 for section in found)


def test_the_layers_on_disk_are_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "NEXUS.md").write_text("root rules")
    (tmp_path / "sub" / "AGENTS.md").write_text("sub rules")
    found = made("instructions", sources(tmp_path / "sub"))
    assert [(section.id, section.source) for section in found[1:]] == [
        ("instructions.ancestor.01", "NEXUS.md"),
        ("instructions.project", "sub/AGENTS.md"),
    ]


def test_a_layer_over_the_cap_keeps_head_and_tail_and_gives_back_what_was_cut() -> None:
    text = "\n".join(f"rule {number} of many" for number in range(4000))
    [section] = instructions([layer("local", "/r/a", text)], 1000)
    assert section.cut is not None
    full, shortened = section.naming("d7").forms
    assert full == f"# Project Configuration (/r/a)\n{text}"
    assert SimpleTokenCounter().count(shortened) <= 1000
    start, end = section.cut.start, section.cut.end
    assert section.cut.text == text
    assert f'recall("d7", "{start}:{end}")' in shortened
    head, tail = shortened.split("\n[...")[0].partition("\n")[2], shortened.split("...]\n")[1]
    assert head.rstrip("\n") + "\n" == text[:start]
    assert tail == text[end:]
    assert section.cut.tokens > 10_000


@given(
    st.lists(st.integers(1, 30_000), min_size=1, max_size=6),
    st.integers(500, 16_384),
)
def test_short_layers_stay_whole_and_all_together_keep_to_the_cap(sizes: list[int], cap: int) -> None:
    layers = [layer("ancestor", f"/r{n}", ("word " * size)[:size]) for n, size in enumerate(sizes)]
    found = instructions(layers, cap)
    count = SimpleTokenCounter().count
    sent = [section.forms[-1] for section in found]
    assert sum(map(count, sent)) <= cap + 8 * len(sent)
    for section in found:
        assert (section.cut is None) == (len(section.forms) == 1)
        assert DROP in section.forms[-1] if section.cut else DROP not in section.forms[-1]
    if sum(count(section.full) + 1 for section in found) <= cap:
        assert all(section.cut is None for section in found)


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(-10, 3000))
def test_shares_never_exceed_the_need_nor_the_room(sizes: list[int], room: int) -> None:
    shares = share(sizes, room)
    assert all(part <= size for part, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= max(0, room)
    assert shares == sizes or sum(shares) > room - len(sizes) or room <= 0


def test_the_cap_is_a_quarter_of_the_budget_and_at_most_sixteen_thousand() -> None:
    count = SimpleTokenCounter().count
    assert View.of("m", "ask", TokenBudget.of(200_000), count).instruction_cap == 16_384
    assert View.of("m", "ask", TokenBudget.of(8_000), count).instruction_cap == 1_250
    assert View.of("m", "ask", TokenBudget.of(0), count).instruction_cap == 0


def test_a_nexus_md_of_fifty_megabytes_becomes_a_section_within_the_cap(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_bytes(b"Always run the tests.\n" * (50 * 1024 * 1024 // 22))
    view = View.of("m", "ask", TokenBudget.of(200_000), SimpleTokenCounter().count)
    section = made("instructions", sources(tmp_path), view)[-1]
    assert section.cut is not None
    assert SimpleTokenCounter().count(section.forms[-1]) <= 16_384
    assert len(section.cut.text) > 52_000_000


def test_a_binary_nexus_md_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_bytes(b"\0\1\2")
    with pytest.raises(NexusError, match=r"NEXUS\.md"):
        made("instructions", sources(tmp_path))


def test_rendering_instructions_is_pure() -> None:
    value = [{"id": "instructions.global", "slot": 8, "header": "# H", "text": "T" * 9000, "source": "s", "notice": ""}]
    before = json.dumps(value)
    view = replace(VIEW, instruction_cap=300)
    assert render_instructions(value, view) == render_instructions(value, view)
    assert json.dumps(value) == before


# --- environment


def test_the_environment_names_folder_project_system_and_shell(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    [section] = made("environment", sources(tmp_path / "sub"))
    assert section.full.splitlines() == [
        "# Environment",
        f"Working directory: {tmp_path / 'sub'}",
        f"Project: {tmp_path}",
        "Git repository: yes",
        "Operating system: Linux (Debian)",
        "Shell: zsh",
    ]


def test_a_folder_of_its_own_is_its_project_and_a_missing_shell_is_left_out(tmp_path: Path) -> None:
    [section] = made("environment", sources(tmp_path, host=lambda: Host("Linux", "6.1")))
    lines = section.full.splitlines()
    assert "Git repository: no" in lines
    assert not [line for line in lines if line.startswith(("Project", "Shell"))]


def test_a_folder_with_a_line_break_in_its_name_stays_on_its_line(tmp_path: Path) -> None:
    odd = tmp_path / "a\n# Project Configuration"
    odd.mkdir()
    [section] = made("environment", sources(odd))
    assert "\n# Project" not in section.full


# --- clock, start, notices


def test_the_date_and_the_time_are_two_sections_so_that_the_same_day_costs_the_time_alone(tmp_path: Path) -> None:
    first = made("clock", sources(tmp_path))
    assert [section.full for section in first] == ["Date: 2026-01-13 (Tuesday, UTC+01:00)", "Now: 14:30 (local)"]
    later = made("clock", sources(tmp_path, clock=lambda: START + timedelta(minutes=5)))
    assert later[0] == first[0]
    assert later[1].full == "Now: 14:35 (local)"
    assert made("clock", sources(tmp_path, clock=lambda: START.replace(second=59))) == first


def test_midnight_changes_the_date(tmp_path: Path) -> None:
    found = made("clock", sources(tmp_path, clock=lambda: START + timedelta(hours=10)))
    assert found[0].full == "Date: 2026-01-14 (Wednesday, UTC+01:00)"


@pytest.mark.parametrize(
    ("moment", "zone"),
    [
        (datetime(2026, 1, 13, 14, 30), ""),
        (datetime(2026, 1, 13, 14, 30, tzinfo=UTC), ", UTC+00:00"),
        (datetime(2026, 1, 13, 14, 30, tzinfo=timezone(-timedelta(hours=9, minutes=30))), ", UTC-09:30"),
    ],
)
def test_the_zone_is_named_where_the_clock_has_one(tmp_path: Path, moment: datetime, zone: str) -> None:
    assert made("clock", sources(tmp_path, clock=lambda: moment))[0].full == f"Date: 2026-01-13 (Tuesday{zone})"


def test_the_session_start_is_a_stamp_that_stays(tmp_path: Path) -> None:
    [section] = made("session_start", sources(tmp_path, clock=lambda: START + timedelta(days=1)))
    assert section.full == "[Session started: 2026-01-13 14:30 (local)]"


def test_without_notices_there_is_no_section(tmp_path: Path) -> None:
    assert made("notices", sources(tmp_path, notices=list)) == ()
    assert made("notices", sources(tmp_path, notices=lambda: ["", " \n"])) == ()


def test_notices_are_lines_in_order_and_reading_does_not_take_them_away(tmp_path: Path) -> None:
    queued = ["one", "two\nlines"]
    given_ = sources(tmp_path, notices=lambda: queued)
    [section] = made("notices", given_)
    assert section.forms == ("[nexus: one]\n[nexus: two lines]",)
    assert made("notices", given_) == (section,)


def test_many_or_long_notices_have_a_short_form_that_says_how_many_more(tmp_path: Path) -> None:
    [section] = made("notices", sources(tmp_path, notices=lambda: ["x" * 900] + [f"n{n}" for n in range(9)]))
    assert len(section.full.splitlines()) == 10
    assert section.forms[1].splitlines() == [
        f"[nexus: {'x' * 200}...]",
        "[nexus: n0]",
        "[nexus: n1]",
        "[nexus: and 7 more notices]",
    ]
