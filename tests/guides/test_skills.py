"""Skills: where they lie, what they are called, which of two counts, and what is wrong with one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from guide_files import SKILL, find_skills, read_guide
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.commands.skill import skill_guide
from nexus_cli.commands.skill import skills_report as list_skills
from nexus_cli.config.paths import places, with_tilde
from nexus_cli.config.trust import trust
from nexus_cli.core.errors import NexusError
from nexus_cli.guides import skills
from nexus_cli.guides.skills import LONGEST_LINE, LONGEST_NAME, GuideKind, find_guides
from nexus_cli.text.front_matter import read_front_matter


def skill(folder: Path, name: str, text: str | bytes) -> Path:
    """A skill's file in `folder/skills`."""
    place = folder / "skills" / name
    place.mkdir(parents=True)
    data = text.encode() if isinstance(text, str) else text
    (place / "SKILL.md").write_bytes(data)
    return place / "SKILL.md"


def personal(name: str, text: str | bytes) -> Path:
    """A skill of the person."""
    return skill(places().config, name, text)


def test_front_matter_names_and_describes_a_skill(tmp_path: Path) -> None:
    personal("folder", '---\nname: deploy\ndescription: "Roll out: carefully"\n---\n\n# Deploy\nStep one.\n')
    [found] = find_skills(tmp_path)
    assert (found.name, found.description, found.origin) == ("deploy", "Roll out: carefully", "personal")
    assert read_guide(found) == "# Deploy\nStep one."


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("[pr-number] [priority] [assignee]", "[pr-number] [priority] [assignee]"),
        ("[file]", "[file]"),
        ("[it's] | list", "[it's] | list"),
        ("<file> [mode]", "<file> [mode]"),
        ('"[a] [b]"', "[a] [b]"),
    ],
)
def test_a_hint_of_arguments_is_text_as_other_programs_write_it(line: str, value: str) -> None:
    found = read_front_matter(f"---\nargument-hint: {line}\ndescription: Fix: an issue\n---\nText\n")
    assert not found.problem and dict(found.fields) == {"argument-hint": value, "description": "Fix: an issue"}


@pytest.mark.parametrize(
    "value", ["*Important* work", "@file first", "%d things", "`x` runs", "[WIP] not done", "a: b: c"]
)
def test_a_value_that_nobody_quoted_is_text(value: str) -> None:
    found = read_front_matter(f"---\nname: a\ndescription: {value}\nmodel: [x, y]\n---\nText\n")
    assert not found.problem and found.fields["description"] == value and found.fields["model"] == "x, y"


def test_a_description_over_several_lines_becomes_one(tmp_path: Path) -> None:
    personal("a", "---\ndescription: >-\n  Roll out\n  carefully\nlicense: MIT\n---\nText\n")
    personal("b", "---\ndescription: first\n  and second\n---\nText\n")
    assert [found.description for found in find_skills(tmp_path)] == ["Roll out carefully", "first and second"]


def test_without_front_matter_the_folder_and_the_first_paragraph_speak(tmp_path: Path) -> None:
    text = "# Title\n\nHow to release\nthis thing.\n\nMore.\n"
    personal("release", text)
    [found] = find_skills(tmp_path)
    assert (found.name, found.description) == ("release", "How to release this thing.")
    assert read_guide(found) == text.strip("\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: x\ndescription: [y\n# Title\nText.", "without a closing ---"),
        ("---\r\nname: x\r\nText.", "without a closing ---"),
        (f"---\nname: x\nnote: {'n' * 70_000}\n---\nText.", "in its first 64 KiB"),
        ("", "is empty"),
        ("   \n", "is empty"),
        ("---", "no text after its front matter"),
        ("---\n---", "no text after its front matter"),
        ("---\nname: x\n---\n\n", "no text after its front matter"),
    ],
)
def test_a_guide_that_is_none_is_named_with_what_is_wrong_and_not_printed(
    tmp_path: Path, text: str, problem: str
) -> None:
    personal("plain", text)
    [found] = find_skills(tmp_path)
    assert problem in found.problem and found.description == ""
    with pytest.raises(NexusError, match=problem) as raised:
        skill_guide(found.name, tmp_path)
    assert raised.value.exit_status == 2 and found.path in raised.value.hint


@pytest.mark.parametrize("text", ["---\nA rule stands above it.", "---\n\nText: with a colon later", "Text\n---"])
def test_a_rule_is_no_front_matter(tmp_path: Path, text: str) -> None:
    personal("plain", text)
    [found] = find_skills(tmp_path)
    assert (found.problem, read_guide(found)) == ("", text)


def test_hostile_names_and_descriptions_become_one_short_line(tmp_path: Path) -> None:
    personal("odd", f"---\nname: \x1b[31mred\u2028 one {'n' * 200}\ndescription: {'d' * 4000}\x1b[0m\n---\n")
    [found] = find_skills(tmp_path)
    assert "\x1b" not in found.name + found.description
    assert len(found.name) <= LONGEST_NAME
    assert not set(found.name) & set(" \n\u2028")
    assert len(found.description) <= LONGEST_LINE


@pytest.mark.parametrize("kind", GuideKind)
@pytest.mark.parametrize("limit", ["MOST", "MAX_NAMES"])
def test_guides_beyond_the_limit_of_a_folder_are_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: GuideKind, limit: str
) -> None:
    monkeypatch.setattr(skills, limit, 2)
    folder = places().config / kind.place
    for name in "abcd":
        path = folder / name / "SKILL.md" if kind == GuideKind.SKILL else folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: d\n---\nText.\n")
    found = find_guides(tmp_path, kind)[0]
    name, what = ("c", f"{kind}s") if limit == "MOST" else (kind.place, "names")
    problem = f"{with_tilde(folder)} has more than 2 {what}; the rest are ignored"
    assert [(guide.name, guide.problem) for guide in found if guide.problem] == [(name, problem)] and len(found) == 3


def test_what_is_no_skill_is_left_alone_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (places().config / "skills" / "empty").mkdir(parents=True)
    (places().config / "skills" / "folder" / "SKILL.md").mkdir(parents=True)
    for name in ("pipe", "link"):
        (places().config / "skills" / name).mkdir()
    os.mkfifo(places().config / "skills" / "pipe" / "SKILL.md")
    (places().config / "skills" / "link" / "SKILL.md").symlink_to("nowhere")
    (places().config / "skills" / "lost").symlink_to("nowhere")
    (places().config / "skills" / "file").write_text("x")
    personal(".hidden", "x")
    personal("binary", b"\0\1\2")
    found, *others = find_skills(tmp_path)
    assert found.name == "binary"
    assert "not a text file" in found.problem
    assert [(one.name, one.problem) for one in others] == [
        (name, "is not a regular file") for name in ("folder", "link", "lost", "pipe")
    ]
    with pytest.raises(NexusError, match="not a text file"):
        read_guide(found)


@pytest.mark.parametrize("folder", [".nexus", ".agents", ".claude", ".codex"])
def test_a_projects_skills_count_when_it_is_trusted(tmp_path: Path, folder: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    skill(tmp_path / folder, "build", "Build it.")
    assert find_skills(tmp_path / "sub") == ()
    assert find_guides(tmp_path / "sub", SKILL)[1] == 1
    trust(tmp_path)
    [found] = find_skills(tmp_path / "sub")
    assert (found.name, found.origin) == ("build", "project")
    assert find_guides(tmp_path, SKILL)[1] == 0


def test_of_two_skills_of_one_name_the_personal_one_wins_and_the_other_is_listed_as_shadowed(tmp_path: Path) -> None:
    skill(tmp_path / ".nexus", "build", "The project's.")
    personal("z", "---\nname: build\n---\nMine.")
    trust(tmp_path)
    first, second = find_skills(tmp_path)
    assert (first.origin, first.shadowed, read_guide(first)) == ("personal", False, "Mine.")
    assert (second.origin, second.shadowed) == ("project", True)


def test_a_projects_guide_is_what_was_judged_and_not_read_again(tmp_path: Path) -> None:
    path = skill(tmp_path / ".nexus", "build", "Build it.")
    skill(tmp_path / ".nexus", "build/deep", "No skill.")
    trust(tmp_path)
    [found] = find_skills(tmp_path)
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert read_guide(found) == "Build it." and find_skills(tmp_path) == ()


@pytest.mark.parametrize("name", ["a\x1bb", "tab\there", "line\nbreak", "a\u2028b", "byte\udcff"])
@pytest.mark.parametrize("origin", ["personal", "project"])
def test_a_skill_in_a_folder_of_any_name_can_be_used(tmp_path: Path, name: str, origin: str) -> None:
    skill(places().config if origin == "personal" else tmp_path / ".nexus", name, "Guide.")
    if origin == "project":
        trust(tmp_path)
    [found] = find_skills(tmp_path)
    assert read_guide(found) == "Guide." and found.origin == origin
    [shown] = list_skills(tmp_path)["skills"]
    assert shown["name"] == found.name and skill_guide(found.name, tmp_path) == "Guide."
    assert json.dumps(shown, ensure_ascii=False).encode() and not set(shown["path"]) & set("\x1b\t\n\u2028\udcff")


def test_a_broken_skill_does_not_shadow_a_good_one(tmp_path: Path) -> None:
    skill(tmp_path / ".nexus", "build", "The project's.")
    personal("build", b"\0\1\2")
    trust(tmp_path)
    assert [(found.origin, found.shadowed, bool(found.problem)) for found in find_skills(tmp_path)] == [
        ("personal", False, True),
        ("project", False, False),
    ]


def test_a_skill_that_vanished_is_named(tmp_path: Path) -> None:
    path = personal("gone", "x")
    [found] = find_skills(tmp_path)
    path.unlink()
    with pytest.raises(NexusError, match="no longer exists"):
        read_guide(found)


@given(st.text("-ab: \n>|'\"#\t", max_size=80))
def test_parting_never_raises_and_keeps_what_is_no_front_matter(text: str) -> None:
    found = read_front_matter(text)
    assert found.fields or found.text == text or text.startswith("---")
