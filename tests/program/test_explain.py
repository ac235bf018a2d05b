"""`nexus ask --explain-context`, `nexus context --diff`: the program itself, in a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from program.stage import Done, calls, stage

Seen = dict[str, Done]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    root: Path = tmp_path_factory.mktemp("explain")
    with stage(root, [calls(("glob", {"pattern": "*"})), "the answer"]) as place:
        (place.folder / "NEXUS.md").write_text("Be brief.\n")
        return {
            "early": place.run("context", "--diff"),
            "ask": place.ask("--explain-context", "--quiet", "hi"),
            "diff": place.run("context", "--diff"),
            "first": place.run("context", "--diff", "--step", "1", "--json"),
        }


def test_the_plan_of_every_request_is_told_on_stderr_and_nowhere_else(seen: Seen) -> None:
    done = seen["ask"]
    assert (done.status, done.text) == (0, "the answer\n")
    lines = done.told
    assert b"\x1b" not in done.stderr and all(line.startswith("context: ") for line in lines)
    heads = [line for line in lines if line.startswith("context: request ")]
    assert [head.split()[2] for head in heads] == ["1:", "2:"] and " tokens (" in heads[0]
    assert any(line.startswith("context: system contract: full (score ") for line in lines)
    assert any(line.startswith("context: system instructions.project: full (score 92, ") for line in lines)
    assert any(line.startswith("context: event clock.date: full (score 95, ") for line in lines)
    assert "context: left out: nothing" in lines
    assert any(line.startswith("context: limits: max_steps 200") for line in lines)


def test_the_difference_to_the_request_before_is_shown(seen: Seen) -> None:
    text = seen["diff"].text
    assert text.startswith("request 2 against request 1: ") and "The window continues the previous one." in text
    assert "result of glob *" in text and "+" in text
    value = seen["first"].result
    assert (value["step"], value["before"]) == (1, None) and value["epoch"]["cause"] == "start"


def test_without_a_session_there_is_nothing_to_compare(seen: Seen) -> None:
    assert seen["early"].status == 2 and "no saved session" in " ".join(seen["early"].told)
