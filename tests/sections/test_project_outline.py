"""The outline of a project, from names alone, and the bounded walk."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.sections.project_outline import Outline, outline_files, walk_files


def test_an_outline_counts_folders_and_languages_and_names_what_tells_about_the_project() -> None:
    names = [
        "src/a.py",
        "src/b.py",
        "src/deep/c.PY",
        "docs/x.md",
        "README.md",
        "pyproject.toml",
        "Dockerfile",
        "n.ipynb",
    ]
    assert outline_files(names) == Outline(
        8,
        (("src", 3), ("docs", 1)),
        (("Python", 3), ("prose", 2), ("Jupyter", 1), ("TOML", 1)),
        ("README.md", "pyproject.toml", "Dockerfile"),
    )
    assert outline_files([]) == Outline()


@given(st.lists(st.text("ab/.py\n\x1b", min_size=1, max_size=12)))
def test_every_name_is_counted_once_whatever_it_looks_like(names: list[str]) -> None:
    found = outline_files(names)
    assert found.files == len(names)
    assert sum(count for _, count in found.folders) <= len(names)
    assert found == outline_files(list(reversed(names))) == outline_files(names)


def test_the_walk_leaves_hidden_and_heavy_folders_and_links_alone(tmp_path: Path) -> None:
    for name in ("a.py", "src/b.py", ".git/config", "node_modules/x/y.js", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    names, whole = walk_files(tmp_path)
    assert sorted(names) == [".env", "a.py", "loop", "src/b.py"]
    assert whole


def test_the_walk_is_bounded_in_entries_and_in_time(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"f{number}").touch()
    names, whole = walk_files(tmp_path, entries=10)
    assert len(names) < 10
    assert not whole
    assert walk_files(tmp_path, seconds=-1) == ([], False)
    assert walk_files(tmp_path / "not-there") == ([], True)
