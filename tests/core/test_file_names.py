"""Another spelling of a path finds the file that is there; a wrong one is answered with the nearest name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from nexus_cli.core.file_names import looks_like_file, nearest_path, resolve_spelling

NFC, NFD = (unicodedata.normalize(form, "Übersicht é.txt") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("there", "written"),
    [
        (NFD, NFC),
        (NFC, NFD),
        ("Screenshot at 10.00.00\u202fAM.png", "Screenshot at 10.00.00 AM.png"),
        ("a\u00a0b.txt", "a b.txt"),
        (f"{NFD}.d/x.py", f"{NFC}.d/x.py"),
        ("src/a.py", "@src/a.py"),
        ("@types/a.py", "@types/a.py"),
    ],
)
def test_another_spelling_means_the_file_that_is_there(tmp_path: Path, there: str, written: str) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).touch()
    assert resolve_spelling(str(tmp_path), written) == str(tmp_path / there)


def test_a_new_name_stays_as_it_is_written_and_two_spellings_stay_two_files(tmp_path: Path) -> None:
    folder = tmp_path / NFD
    folder.mkdir()
    assert resolve_spelling(str(tmp_path), f"{NFC}/née.txt") == str(folder / "née.txt")
    assert resolve_spelling(str(tmp_path), "@new.txt") == str(tmp_path / "@new.txt")
    for space in ("\u00a0", "\u202f"):
        (tmp_path / f"a{space}b").touch()
    assert resolve_spelling(str(tmp_path), "a b") == str(tmp_path / "a b")


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("src/confg.toml", "src/config.toml"),
        ("scr/config.toml", "src/config.toml"),
        ("SRC/Config.toml", "src/config.toml"),
        ("src/config.tml", "src/config.toml"),
        ("src/z.toml", ""),
        ("nothing/like/it", ""),
        ("a\0b", ""),
    ],
)
def test_the_nearest_name_is_found_folder_by_folder(tmp_path: Path, written: str, near: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/config.toml").touch()
    (tmp_path / "b.toml").touch()
    assert nearest_path(str(tmp_path), written) == near


def test_a_name_too_long_to_search_is_no_file() -> None:
    assert looks_like_file("x" + "/.a" * 60) and not looks_like_file("x" + "/.a" * 70)
