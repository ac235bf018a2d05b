"""What is remembered, as it stands in a request: a short line each, bounded, and nothing where nothing matters."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.config.paths import places
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import LONGEST, Episode, Fact, FactState, MemorySlot
from nexus_cli.sections.contributor import Sources, View, discover
from nexus_cli.sections.contributors.facts import LONG
from nexus_cli.sections.section import DROP, Layer, Phase, Section

START = datetime(2026, 1, 13, 14, 30, tzinfo=UTC)
COUNTER = TiktokenCounter("o200k_base")
VIEW = View.of("openai/m", "chat", TokenBudget.of(200_000), COUNTER.count)
ALL = discover()
OURS = {
    "user_memory": (88, True, Phase.CONSTRAINT),
    "project_memory": (75, False, Phase.MEMORY),
    "agent_memory": (70, False, Phase.MEMORY),
}


class Remembered:
    """`Facts` that gives the same texts in every slot, and remembers what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked: list[tuple[MemorySlot, str]] = []

    def facts(self, slot: MemorySlot) -> list[Fact]:
        return [
            Fact(f"m{number}", slot, text, "2026-01-02T03:04:05.000Z", FactState.KEPT, "person", "s", 1)
            for number, text in enumerate(self.texts, 1)
        ]

    def remember(self, slot: MemorySlot, text: str, quote: str = "") -> Fact:
        raise AssertionError("a contributor only reads")

    def forget(self, fact_id: str) -> Fact | None:
        raise AssertionError("a contributor only reads")

    def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
        return self.facts(MemorySlot.USER)[:limit]

    def relevant(self, slot: MemorySlot, about: str, limit: int = 5) -> Sequence[Fact]:
        self.asked.append((slot, about))
        return self.facts(slot)[:limit]


def made(contributor: str, folder: Path, **seams: Any) -> tuple[Section, ...]:
    chosen = ALL[contributor]
    value = chosen.read(Sources.of(folder, START, **seams))
    assert json.loads(json.dumps(value)) == value
    return chosen.render(value, VIEW)


@pytest.mark.parametrize("name", OURS)
def test_a_fact_is_one_line_in_a_section_of_its_own(name: str, tmp_path: Path) -> None:
    facts = Remembered("use tabs", "never spaces")
    found = made(name, tmp_path, facts=facts, about=lambda: "what was said")
    assert [section.forms for section in found] == [
        ("- use tabs (remembered 2026-01-02, m1)",),
        ("- never spaces (remembered 2026-01-02, m2)",),
    ]
    assert [section.id for section in found] == [f"{name}.m1", f"{name}.m2"]
    priority, sticky, phase = OURS[name]
    for section in found:
        assert (section.priority, section.sticky, section.phase) == (priority, sticky, phase)
        assert section.layer is Layer.EVENT and section.source
    assert facts.asked == [(MemorySlot(name.removesuffix("_memory")), "what was said")]


@pytest.mark.parametrize("name", OURS)
def test_without_facts_there_is_no_section(name: str, tmp_path: Path) -> None:
    assert made(name, tmp_path) == made(name, tmp_path, facts=Remembered()) == ()


@given(st.lists(st.text("ab é漢", min_size=1, max_size=LONGEST).filter(str.strip), max_size=20))
def test_the_facts_of_a_turn_stay_within_their_room_and_every_other_is_named(texts: list[str]) -> None:
    value = [{"id": f"m{n}", "text": " ".join(text.split()), "date": "2026-01-02"} for n, text in enumerate(texts)]
    for name in OURS:
        found = ALL[name].render(value, VIEW)
        assert len(found) <= 13 and bool(found) == bool(texts), "the best one always comes"
        lines = [section for section in found if section.id != f"{name}.more"]
        said = [next(form for form in reversed(one.forms) if form.startswith("- ")) for one in lines]
        assert sum(COUNTER.count(form) for form in said[1:]) <= (240 if name == "user_memory" else 40)
        more = next((section.full for section in found if section not in lines), "")
        held = "\n".join([*(section.full for section in lines), *([more] if more else [])])
        assert all(f"- {one['text']} (remembered 2026-01-02, {one['id']})" in held.splitlines() for one in value)


def test_many_short_facts_take_about_a_hundred_tokens_where_they_are_no_rules_of_the_person(tmp_path: Path) -> None:
    facts = Remembered(*(f"fact number {number} about the deploy" for number in range(9)))
    names = ("project_memory", "agent_memory")
    found = [section for name in names for section in made(name, tmp_path, facts=facts, about=lambda: "deploy")]
    assert len(found) == 4 and sum(COUNTER.count(section.forms[section.least]) for section in found) <= 120


def test_what_the_person_wants_of_answers_is_told_whole_and_a_long_fact_pushes_out_no_short_one(tmp_path: Path) -> None:
    rules = [
        "Answers are in German",
        "Answers never hold emojis",
        "Answer with the command first, explanation afterwards",
        "Replies end with a summary of the changed files",
        "Answer in metric units always",
        "Reply without apologies",
    ]
    for texts in (rules, rules[::-1]):
        found = made("user_memory", tmp_path, facts=Remembered(*texts))
        assert [section.id for section in found] == [f"user_memory.m{number}" for number in range(1, 7)]
        assert all(section.least == 0 and section.sticky for section in found)
    found = made("project_memory", tmp_path, facts=Remembered("one", "a long fact " * 13, "two"))
    assert [section.id for section in found] == ["project_memory.m1", "project_memory.m3", "project_memory.more"]


def test_facts_without_room_are_one_pointer_that_names_them(tmp_path: Path) -> None:
    *_, more = made("user_memory", tmp_path, facts=Remembered(*(f"answers, rule {number}" for number in range(40))))
    assert (more.id, more.least, more.sticky) == ("user_memory.more", 1, True)
    assert more.forms[1] == f'[28 more facts of the person: recall("{DROP}")]'
    assert more.source == "facts m13, m14, m15, m16, m17, m18, m19, m20 and 20 more"
    assert len(more.full.splitlines()) == 28 and more.full.endswith("- answers, rule 39 (remembered 2026-01-02, m40)")


def test_in_a_small_window_the_lines_of_facts_take_a_hundredth_of_it() -> None:
    small = View.of("openai/m", "chat", TokenBudget.of(3_000), COUNTER.count)
    value = [{"id": f"m{n}", "text": f"answers, rule {n}", "date": "2026-01-02"} for n in range(9)]
    found = ALL["user_memory"].render(value, small)
    assert [section.id for section in found] == ["user_memory.m0", "user_memory.more"]


def test_a_long_rule_of_the_person_has_a_pointer_too() -> None:
    (section,) = ALL["user_memory"].render([{"id": "m4", "text": "word " * 60, "date": "2026-01-02"}], VIEW)
    assert len(section.forms) == 3 and section.forms[-1] == f'[m4 of the person: recall("{DROP}")]'


def test_a_long_fact_has_a_short_form_that_says_where_the_rest_is(tmp_path: Path) -> None:
    text = "deploy " + "word " * 300
    (section,) = made("project_memory", tmp_path, facts=Remembered(text.strip()), about=lambda: "deploy")
    full, short = section.forms
    assert text.strip() in full and len(short) < LONG + 80 and f'recall("{DROP}")' in short
    assert DROP not in full


# --- the file that stands in for facts


def notes(text: bytes) -> Path:
    path = places().config / "MEMORY.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def test_the_memory_file_stands_in_while_there_is_no_fact(tmp_path: Path) -> None:
    assert made("memory", tmp_path) == ()
    path = notes(b"\r\n- likes tabs\r\n- never spaces\r\n\r\n")
    for seams in ({}, {"facts": Remembered()}):
        (section,) = made("memory", tmp_path, **seams)
        assert section.forms == ("The person's notes (MEMORY.md):\n- likes tabs\n- never spaces",)
        assert (section.priority, section.sticky, section.source) == (60, False, str(path))
    assert made("memory", tmp_path, facts=Remembered("one")) == ()


def test_a_long_memory_file_has_shorter_forms(tmp_path: Path) -> None:
    notes(b"one line of notes\n" * 9_000)
    (section,) = made("memory", tmp_path, facts=Remembered())
    sizes = [COUNTER.count(form) for form in section.forms]
    assert len(sizes) == 3 and sizes == sorted(sizes, reverse=True) and sizes[1] <= 450 and sizes[2] < 40
    assert len(section.full) < 70_000 and all(DROP in form for form in section.forms[1:])


def test_a_memory_file_beyond_its_limit_says_so_in_the_text_the_section_and_a_notice(tmp_path: Path) -> None:
    data = b"one line of notes\n" * 9_000
    path = notes(data)
    chosen = ALL["memory"]
    value = chosen.read(Sources.of(tmp_path, START, facts=Remembered()))
    (section,) = chosen.render(value, VIEW)
    beyond = len(data) - 64 * 1024
    assert section.unread_bytes == section.to_json()["unread_bytes"] == beyond
    assert section.full.endswith(f"\n[... {beyond:,} more bytes of MEMORY.md are not read ...]")
    assert list(chosen.notices(value)) == [f"{path}: only the first 65,536 bytes were read"]
    notes(b"short\n")
    value = chosen.read(Sources.of(tmp_path, START))
    assert chosen.render(value, VIEW)[0].unread_bytes == 0 and not chosen.notices(value)


@pytest.mark.parametrize("text", [b"", b" \n\t\n", b"\0\0binary\0", b"\xff\xfe"])
def test_a_memory_file_that_says_nothing_is_no_section(tmp_path: Path, text: bytes) -> None:
    notes(text)
    assert made("memory", tmp_path) == ()


def test_a_ledger_that_fails_costs_the_section_and_not_the_turn(tmp_path: Path) -> None:
    class Failing(Remembered):
        def search(self, text: str, slots: Collection[MemorySlot] = (), limit: int = 20) -> Sequence[Fact]:
            raise NexusError("ledger", "the ledger could not be read", "the disk reported an error")

    notes(b"likes tabs")
    assert made("memory", tmp_path, facts=Failing()) == ()


# --- past sessions


def test_a_past_session_is_one_line(tmp_path: Path) -> None:
    asked: list[str] = []

    def past(about: str) -> list[Episode]:
        asked.append(about)
        title = f"fix the\nlogin \x1b {'x' * 300}"
        return [Episode(f"01J{n}", f"2026-01-0{n}T00:00:00.000Z", title) for n in (3, 2, 1)]

    found = made("episodic", tmp_path, episodes=past, about=lambda: "login")
    assert asked == ["login"]
    assert [section.id for section in found] == ["episodic.01J3", "episodic.01J2", "episodic.more"]
    assert found[2].forms[1] == f'- [1 more earlier session that fits: recall("{DROP}")]' and "01J1" in found[2].full
    assert found[2].least == 1
    for section in found[:2]:
        (form,) = section.forms
        assert form.startswith("- Earlier session 2026-01-0") and "\n" not in form and "\x1b" not in form
        assert len(form) < 180 and (section.priority, section.sticky, section.phase) == (40, False, Phase.MEMORY)
    assert made("episodic", tmp_path) == ()
