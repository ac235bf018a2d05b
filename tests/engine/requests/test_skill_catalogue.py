"""The skills that are named for a message: those that fit its words, never for a call or for the text of a guide."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.config.paths import places
from nexus_cli.session.section_sources import SkillCatalogue

GUIDES = {
    "release-notes": "Write the changelog of a release",
    "release-tag": "Tag a release in git",
    "charts": "Draw charts of sales figures",
}


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("draw the sales charts", ["charts"]),
        ("/release-notes for May", []),
        ("use $release-notes for May", []),
        ("/release-notes draw the sales charts", ["charts"]),
        ('do it\n\n<skill name="charts" source="x">\nDraw charts of sales figures\n</skill>', []),
        ("it costs $5, draw the sales charts", ["charts"]),
    ],
)
def test_what_calls_a_guide_names_no_other(tmp_path: Path, message: str, named: list[str]) -> None:
    for name, said in GUIDES.items():
        place = places().config / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {said}\n---\nText\n")
    found = SkillCatalogue(tmp_path, lambda: message).matching()
    assert [one["name"] for one in found] == named
