"""A project whose rules do not fit a small window: what is read back counts for more in later sessions.

Shown with its multiplier, stored with the epoch, slow, and switched off by one setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, QUICK, Stage, calls, stage

SMALL = f'[models."{MODEL}"]\nwindow = 8192\nmax_output = 2048\n'
RULES = "".join(f"- Rule {number}: keep part {number} short.\n" for number in range(150))
ONE = 1.034
"""The factor after one event, which was a recall."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.settings(QUICK + SMALL)
        (made.folder / "AGENTS.md").write_text(f"# Rules\n\n{RULES}")
        yield made


def shortened(place: Stage) -> dict[str, Any]:
    """The section of the rules in the newest session of the folder; before the first, in that."""
    report = place.run("context", "--json").result
    [section] = [one for one in report["sections"] if one["drop"] and one["id"].startswith("instructions")]
    return dict(section)


def ask(place: Stage, *arguments: str) -> str:
    """The id of the session in which `nexus ask` ends well."""
    done = place.ask("--json", *arguments)
    assert done.status == 0, done
    return str(done.result["session"])


def recall_rules(place: Stage) -> str:
    """The id of a session in which the model reads the rules back."""
    place.script([calls(("recall", {"id": shortened(place)["drop"]})), "noted", "again"])
    return ask(place, "What does rule 149 say?")


def test_a_section_that_is_read_back_counts_for_more_in_the_next_session(place: Stage) -> None:
    first = recall_rules(place)
    before = shortened(place)
    assert before["multiplier"] == 1.0 and "learned" not in before
    ask(place, "-r", first, "And rule 148?")
    assert shortened(place) == before
    bodies = [request.body["messages"][0] for request in place.server.requests]
    assert bodies[0] == bodies[1] == bodies[2], "the prefix law: nothing changes in an epoch"
    place.script({"default": {"text": "fine"}})
    second = ask(place, "In another session")
    changed = shortened(place)
    assert changed["multiplier"] == changed["learned"] == ONE and changed["score"] > before["score"]
    assert f"(x{ONE:g}, learned)" in place.run("context", env={"COLUMNS": "160"}).text
    for words in ("Not of the rules", "Neither this"):
        third = ask(place, words)
    assert shortened(place)["multiplier"] < ONE, "it was left out, and nobody missed it"
    for one in (first, second, third):
        done = place.run("replay", "--session", one)
        assert done.status == 0, done


def test_one_setting_switches_it_off(place: Stage) -> None:
    recall_rules(place)
    place.settings(QUICK + SMALL + "[sections]\nlearn = false\n")
    place.script({"default": {"text": "fine"}})
    ask(place, "In another session")
    assert shortened(place)["multiplier"] == 1.0 and "learned" not in shortened(place)


def test_another_project_learns_nothing_from_it(place: Stage) -> None:
    recall_rules(place)
    other = place.folder.parent / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text(f"# Rules\n\n{RULES}")
    report = place.run("context", "--json", cwd=other).result
    assert {one["multiplier"] for one in report["sections"]} == {1.0}
