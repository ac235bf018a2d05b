"""Persona files: which count, what happens to odd ones, and the forms of a long text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.config.paths import places
from nexus_cli.config.trust import Configuration, trust, trusted_configuration
from nexus_cli.conversation.tokens.counter import SimpleTokenCounter
from nexus_cli.sections import identity_files as persona
from nexus_cli.sections.identity_files import (
    IDENTITY,
    LIMIT,
    PREFERENCES,
    read_identity_files,
    section_forms,
    shrink_forms,
)
from nexus_cli.sections.section import DROP, STAND_IN

COUNT = SimpleTokenCounter().count


@pytest.fixture
def config() -> Path:
    """The personal config folder."""
    folder = places().config
    folder.mkdir(parents=True)
    return folder


def test_the_personal_files_count_everywhere_and_blank_ones_say_nothing(config: Path, tmp_path: Path) -> None:
    (config / "SOUL.md").write_text("\n\n  Calm.\n\n")
    (config / "AGENT.md").write_text(" \n")
    (config / PREFERENCES).write_text("Short answers.")
    assert [(one.name, one.text, one.origin) for one in read_identity_files(IDENTITY, tmp_path)] == [
        ("SOUL.md", "  Calm.", "personal")
    ]
    assert [one.text for one in read_identity_files((PREFERENCES,), tmp_path)] == ["Short answers."]


def test_a_project_says_who_we_are_only_while_it_is_trusted(tmp_path: Path) -> None:
    own = tmp_path / ".nexus"
    own.mkdir()
    (own / "AGENT.md").write_text("You are a pirate.")
    (own / PREFERENCES).write_text("Prefer rum.")
    assert read_identity_files(IDENTITY, tmp_path) == ()
    trust(tmp_path)
    [found] = read_identity_files(IDENTITY, tmp_path)
    assert (found.text, found.origin) == ("You are a pirate.", "project")
    assert read_identity_files((PREFERENCES,), tmp_path) == (), "preferences are the person's alone"
    (own / "AGENT.md").write_text("You are a navy.")
    assert read_identity_files(IDENTITY, tmp_path) == (), "what was changed is not trusted any more"


def test_what_takes_effect_of_a_project_is_what_was_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / ".nexus"
    own.mkdir()
    for name, text in (("AGENT.md", "You are a pirate."), ("SOUL.md", "x" * (LIMIT + 1))):
        (own / name).write_text(text)
    trust(tmp_path)

    def meanwhile(root: Path) -> Configuration:
        judged = trusted_configuration(root)
        for name in ("AGENT.md", "SOUL.md"):
            (own / name).unlink()
            (own / name).symlink_to("/etc/passwd")
        return judged

    monkeypatch.setattr(persona, "trusted_configuration", meanwhile)
    soul, agent = read_identity_files(IDENTITY, tmp_path)
    assert agent.text == "You are a pirate." and "only the first 1,048,576 bytes" in soul.notice


def test_odd_files_are_named_or_left_out_and_never_end_anything(config: Path, tmp_path: Path) -> None:
    (config / "SOUL.md").mkdir()
    (config / "IDENTITY.md").write_bytes(b"\0\1\2 binary")
    (config / "AGENT.md").write_bytes("Gr\u00fc\u00dfe aus K\u00f6ln, \u00c4rger \u00fcber \u00d6l".encode("cp1252"))
    folder, broken, odd = read_identity_files(IDENTITY, tmp_path)
    assert (folder.text, "SOUL.md is a folder" in folder.notice) == ("", True)
    (config / PREFERENCES).symlink_to("nowhere")
    assert "nowhere, which does not exist" in read_identity_files((PREFERENCES,), tmp_path)[0].notice
    assert (broken.text, broken.notice.count("IDENTITY.md")) == ("", 1)
    assert odd.text.startswith("Gr\u00fc\u00dfe")
    assert "cp1252" in odd.notice


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_a_notice(config: Path, tmp_path: Path) -> None:
    (config / "SOUL.md").write_text("x")
    (config / "SOUL.md").chmod(0)
    [found] = read_identity_files(IDENTITY, tmp_path)
    assert "cannot be read" in found.notice


def test_of_a_file_of_ten_megabytes_one_is_read_and_the_others_are_counted(config: Path, tmp_path: Path) -> None:
    data = b"Be calm and kind.\n" * (10 * 1024 * 1024 // 18)
    (config / "SOUL.md").write_bytes(data)
    [found] = read_identity_files(IDENTITY, tmp_path)
    assert found.beyond == len(data) - LIMIT
    text, _, last = found.text.rpartition("\n")
    assert LIMIT - 20 <= len(text) <= LIMIT and last == f"[... {found.beyond:,} more bytes of SOUL.md are not read ...]"
    assert "only the first 1,048,576 bytes" in found.notice
    made = section_forms("# Identity", found.text, COUNT)
    assert [COUNT(form.replace(DROP, STAND_IN)) < 1100 for form in made] == [False, True, True]


@given(st.lists(st.sampled_from(["word " * 40, "# Headline", "## Other", "```", "x" * 3000, ""]), max_size=60))
def test_forms_are_one_to_four_and_strictly_shrink(lines: list[str]) -> None:
    text = "\n".join(lines) or "x"
    made = section_forms("# Identity (SOUL.md)", text, COUNT)
    sizes = [COUNT(form.replace(DROP, STAND_IN)) for form in made]
    assert 1 <= len(made) <= 4
    assert sizes == sorted(set(sizes), reverse=True)
    assert made[0] == f"# Identity (SOUL.md)\n{text}"
    assert all(DROP in form for form in made[1:])
    assert len(made) > 1 or sizes[0] <= 160


def test_headings_inside_a_block_of_code_are_no_outline() -> None:
    text = "# Real\n```\n# comment\n```\n" + "word " * 2000
    outline = section_forms("# Identity", text, COUNT)[2]
    assert "# Real" in outline
    assert "# comment" not in outline


@given(st.lists(st.text("ab ", min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=4))
def test_of_given_forms_those_stay_that_get_smaller(given_: list[str]) -> None:
    kept = shrink_forms(given_, len)
    assert kept[0] == given_[0]
    assert [len(form) for form in kept] == sorted({len(form) for form in kept}, reverse=True)
    assert len(given_[-1]) >= len(given_[0]) or kept[-1] == given_[-1]
