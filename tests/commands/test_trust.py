"""`/trust` asks for the configuration of each folder that counts here, and an answer holds for that folder alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from commands.conftest import FakeContext, answering
from guide_files import AGENT
from search import sample
from session.played import Played

from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.trust import read_configuration, trust_state
from nexus_cli.guides.skills import find_guides

ROLE = "---\nname: {0}\ndescription: Reads.\n---\nYou are {0}.\n"


@pytest.mark.parametrize(("answers", "known"), sample([(["yes", "yes"], 2), (["yes", "no"], 1), (["no", "yes"], 1)], 3))
def test_trust_asks_for_the_root_and_for_the_folders_below(
    answers: list[str], known: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    root, inner = tmp_path / "repository", tmp_path / "repository/packages/shop"
    (root / ".git").mkdir(parents=True)
    for folder, name in ((root, "outer"), (inner, "inner")):
        (folder / ".claude/agents").mkdir(parents=True)
        (folder / f".claude/agents/{name}.md").write_text(ROLE.format(name))
    context = FakeContext(inner, Played(answering))
    wanted = iter(answers)
    context.pick = lambda choices: "" if next(wanted) == "no" else "yes"
    context.run("trust")
    states = [trust_state(folder, read_configuration(folder, KINDS)) for folder in (root, inner)]
    assert [state == "trusted" for state in states] == [answer == "yes" for answer in answers]
    assert [value["project"] for _, value in context.shown] == [str(root), str(inner)]
    assert len(find_guides(inner, AGENT)[0]) == known
    context.run("trust show")
    assert len(context.shown) == 3
    context.run("trust --revoke").run("trust --revoke")
    assert [said.split(maxsplit=1)[1] for said in context.said[-2:]] == ["is no longer trusted.", "was not trusted."]
    context.can_choose = False
    context.run("trust")
    assert "Nothing was changed." in context.said and not len(find_guides(inner, AGENT)[0])
    asyncio.run(context.session.aclose())
