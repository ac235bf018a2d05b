"""What comments, docstrings and READMEs cite is in the repository: pages of `nexus docs`, laws, seeds, READMEs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.test_docs import commands_in, unknown_words
from test_architecture import PRODUCT, ROOT, tracked

from nexus_cli.cli.doc_pages import TOPICS, page_text

ABSENT = r"\b(?:interface|design|house|words|facts)\.md|\bdesign (?:law|section|\d)"
"""Documents by whose names the source could speak of what nobody else has."""
SEEDS = (ROOT / "tests" / "SEEDS.md").read_text(encoding="utf-8")
CITED = {
    "a document that is not here": (ABSENT, set()),
    "a page": (r"`nexus docs ([\w-]+)`", {*TOPICS, "TOPIC", "PAGE", "WORDS"}),
    "a law": (r"\b[Ll]aws? (\d+)(?!\d* %)", set(re.findall(r"^(\d)\. \*\*", page_text("context"), re.MULTILINE))),
    "a seed": (r"\b[Ss]eed ([A-Z])\b", set(re.findall(r"\b[Ss]eed ([A-E])\b", SEEDS))),
}
"""What is cited, by the expression that finds it, and what there is of it."""
READMES = r"`((?:[\w-]+/)*(?:README|BACKENDS|WALLS|CONTEXT|SEEDS)\.md)`"


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        if path.suffix in (".py", ".md", ".toml", ".json", ".yml") and path != Path(__file__).resolve():
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")


def missing(text: str, pattern: str, there: set[str]) -> list[str]:
    return [found for found in re.findall(pattern, text) if found not in there]


@pytest.mark.matrix
@pytest.mark.parametrize("what", CITED)
def test_what_is_cited_is_there(what: str) -> None:
    pattern, there = CITED[what]
    assert [f"{name}: {one}" for name, text in texts() for one in missing(text, pattern, there)] == []
    assert what.endswith("not here") or len(there) >= 5


def test_what_is_missing_is_found() -> None:
    wrong = "see interface" + ".md section 2, `nexus docs setings`, law 10 and seed F"
    assert all(missing(wrong, pattern, there) for pattern, there in CITED.values())


@pytest.mark.matrix
def test_every_readme_that_is_named_is_there() -> None:
    names = {f"/{path.relative_to(ROOT).as_posix()}" for path in tracked()}
    cited = [(name, one) for name, text in texts() for one in re.findall(READMES, text)]
    assert len(cited) > 5
    assert [one for one in cited if not any(there.endswith(f"/{one[1]}") for there in names)] == []
    assert (PRODUCT / "docs" / "context.md").is_file()


PAGES = [path for path in tracked() if path.suffix == ".md" and "tests" not in path.relative_to(ROOT).parts]


def test_every_command_that_a_page_names_exists() -> None:
    pages = [path for path in PAGES if path.name != "CHANGELOG.md" and "defaults" not in path.parts]
    found = [(path, words) for path in pages for words in commands_in(path.read_text(encoding="utf-8"))]
    assert len({path for path, _ in found}) > 10
    assert [f"{path}: {words}" for path, words in found if unknown_words(list(words))] == []


def test_links_of_pages_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\((?!http)([^)#\s]+)", page.read_text())]
    assert len(links) > 30
    assert [one for one in links if not (one[0].parent / one[1]).exists()] == []


def test_every_test_that_a_page_names_is_there() -> None:
    cited = [
        (page, *one) for page in PAGES for one in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())
    ]
    assert len(cited) > 10
    files = {path.relative_to(ROOT).as_posix(): path for path in tracked()}
    assert [
        one for one in cited if one[1] not in files or (one[2] and f"def {one[2]}(" not in files[one[1]].read_text())
    ] == []


def test_the_workflow_runs_the_checks_on_every_python_that_is_supported() -> None:
    text = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    versions = re.findall(r'"(3\.\d+)"', text)
    needed = re.search(r'requires-python = ">=(3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert needed and versions[0] == needed[1] and versions == [f"3.{11 + number}" for number in range(len(versions))]
    assert "run: .ci/run" in text and os.access(ROOT / ".ci" / "run", os.X_OK)
