"""Seed A's PromptLoader: layers, headers, sources, bad files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexus_cli.config.paths import defaults_dir
from nexus_cli.context.prompt_loader import FilePromptSource, PromptLoader, get_system_info
from nexus_cli.core.elide import trim_text
from nexus_cli.core.errors import NexusError


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "config").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def personal(tmp_path: Path) -> Path:
    return tmp_path / "home" / "config" / "NEXUS.md"


def test_all_three_sections_stand_under_their_headers_with_one_blank_line_between(tmp_path: Path) -> None:
    personal(tmp_path).write_text("\n\nBe kind.\n\n")
    Path("NEXUS.md").write_text("Use tabs.\n")
    loaded = PromptLoader().load()
    assert loaded.content == (
        "# Personal Configuration\nBe kind.\n\n# Project Configuration\nUse tabs.\n\n"
        f"# Environment\n{get_system_info()}"
    )
    assert loaded.personal_path == personal(tmp_path)
    assert loaded.project_path == tmp_path / "work" / "NEXUS.md"


def test_without_a_personal_file_the_packaged_one_is_used_and_named() -> None:
    loaded = PromptLoader().load()
    assert loaded.personal_path == defaults_dir() / "NEXUS.md"
    assert loaded.project_path is None
    assert loaded.content.startswith("# Personal Configuration\n")
    assert "# Project Configuration" not in loaded.content


@pytest.mark.parametrize("blank", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_blank_file_counts_as_none(tmp_path: Path, blank: bytes) -> None:
    personal(tmp_path).write_bytes(blank)
    Path("NEXUS.md").write_bytes(blank)
    Path("AGENTS.md").write_text("From agents.")
    loaded = PromptLoader().load()
    assert loaded.personal_path == defaults_dir() / "NEXUS.md"
    assert loaded.project_path == tmp_path / "work" / "AGENTS.md"


def test_agents_md_is_read_only_where_there_is_no_nexus_md() -> None:
    Path("AGENTS.md").write_text("From agents.")
    assert "# Project Configuration\nFrom agents." in PromptLoader().load().content
    Path("NEXUS.md").write_text("From nexus.")
    assert "From agents." not in PromptLoader().load().content


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_what_is_no_file_counts_as_absent(kind: str) -> None:
    match kind:
        case "folder":
            Path("NEXUS.md").mkdir()
        case "fifo":
            os.mkfifo("NEXUS.md")
        case _:
            Path("NEXUS.md").symlink_to("/dev/zero")
    Path("AGENTS.md").write_text("From agents.")
    loaded = PromptLoader().load()
    assert loaded.project_path is not None
    assert loaded.project_path.name == "AGENTS.md"
    assert len(loaded.notices) == (kind != "folder")


def test_a_dangling_link_is_named() -> None:
    Path("AGENTS.md").symlink_to("nowhere.md")
    loaded = PromptLoader().load()
    assert loaded.project_path is None and "nowhere.md, which does not exist" in loaded.notices[0]


def test_a_latin1_project_file_is_decoded() -> None:
    Path("NEXUS.md").write_bytes("Größe prüfen".encode("latin-1"))
    assert "# Project Configuration\nGröße prüfen\n" in PromptLoader().load().content


def test_a_binary_project_file_is_named_in_a_clear_error(tmp_path: Path) -> None:
    Path("NEXUS.md").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(NexusError, match="not a text file") as caught:
        PromptLoader().load()
    assert caught.value.what == str(tmp_path / "work" / "NEXUS.md")


def test_the_project_is_the_folder_at_construction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("NEXUS.md").write_text("Here.")
    loader = PromptLoader()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    loaded = loader.load()
    assert "Here." in loaded.content
    assert f"Working directory: {tmp_path / 'work'}" in loaded.content


def test_loading_again_reads_again() -> None:
    loader = PromptLoader()
    assert "New." not in loader.load().content
    Path("NEXUS.md").write_text("New.")
    assert "New." in loader.load().content


def test_a_folder_that_has_vanished_still_gives_the_personal_prompt(tmp_path: Path) -> None:
    (tmp_path / "work").rmdir()
    loaded = PromptLoader().load()
    assert loaded.project_path is None
    assert "no longer exists" in loaded.content


def test_custom_sources_are_asked_in_order_and_the_first_text_wins(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("B")
    (tmp_path / "c.md").write_text("C")
    sources = [FilePromptSource(tmp_path / name) for name in ("a.md", "b.md", "c.md")]
    loaded = PromptLoader(personal_sources=sources).load()
    assert loaded.personal_path == tmp_path / "b.md"
    assert loaded.content.startswith("# Personal Configuration\nB\n\n# Environment\n")


def test_a_source_need_not_be_a_file() -> None:
    class Spoken:
        path = None

        def load(self) -> str | None:
            return "said"

    loaded = PromptLoader(personal_sources=[], project_source=Spoken()).load(is_repl=False)
    assert loaded.content == f"# Project Configuration\nsaid\n\n# Environment\n{get_system_info(False)}"
    assert (loaded.personal_path, loaded.project_path) == (None, None)


def test_a_file_source_knows_its_path_and_says_how_it_read(tmp_path: Path) -> None:
    source = FilePromptSource(tmp_path / "x.md")
    assert (source.path, source.load(), source.notice) == (tmp_path / "x.md", None, "")
    (tmp_path / "x.md").write_bytes(b"caf\xe9")
    assert source.load() == "café"
    assert "cp1252" in source.notice


def test_trimming_keeps_the_indent_of_the_first_line() -> None:
    assert trim_text("\n \n    code\nmore\n\n") == "    code\nmore"
    assert trim_text(" \n") == ""
