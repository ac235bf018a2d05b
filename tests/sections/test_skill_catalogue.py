"""The catalogue of skills describes as many as it says, however many there are."""

from __future__ import annotations

import pytest

from nexus_cli.sections.contributor import View
from nexus_cli.sections.contributors.skills import DESCRIBED, NAMED, render_catalogue

LINE = "Cut a release: bump the version, write the changelog and tag it. Use it then."


@pytest.mark.parametrize("number", [1, DESCRIBED, DESCRIBED + 1, 100, DESCRIBED + NAMED, DESCRIBED + NAMED + 1, 1000])
@pytest.mark.parametrize("words", [1, 5])
def test_the_first_skills_are_described_and_none_takes_that_from_the_others(number: int, words: int) -> None:
    made = [{"name": f"release-{one:04d}", "description": " ".join([LINE] * words)} for one in range(number)]
    (section,) = render_catalogue(made, View("m", "chat", 128_000, 16_384, lambda text: len(text) // 4))
    sent = section.forms[section.least]
    assert sent.count("\n- release-") == min(number, DESCRIBED) and LINE in sent
    assert sent.count("release-") <= DESCRIBED + NAMED + 1 and "release-0000: " in sent
