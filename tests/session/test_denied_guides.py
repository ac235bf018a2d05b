"""What a deny rule names is not offered to the model: tools, skills, agents. Lists for the person name the rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from permission.test_call_permission import SETTINGS
from search import sample
from session.played import MODEL, Answer, Played, say

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.skill import skills_report
from nexus_cli.config.paths import places
from nexus_cli.core.request import Request
from nexus_cli.service_list import WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

GUIDES = {
    "skills/charts/SKILL.md": "Draws charts of sales.",
    "skills/tags/SKILL.md": "Tags a release.",
    "agents/reviewer.md": "Reviews every change.",
    "agents/builder.md": "Builds one thing.",
}


@pytest.mark.parametrize(
    ("rules", "hidden"),
    sample(
        [
            (["skill(charts)", "agent(Reviewer)"], {"charts", "reviewer"}),
            (["skill(cha*)", "agent"], {"charts", "reviewer", "builder"}),
            ([], set()),
        ],
        3,
    ),
)
def test_the_model_is_not_offered_what_it_may_not_use(tmp_path: Path, rules: list[str], hidden: set[str]) -> None:
    for file, said in GUIDES.items():
        path = places().config / file
        path.parent.mkdir(parents=True, exist_ok=True)
        name = Path(file).parent.name if file.endswith("SKILL.md") else Path(file).stem
        path.write_text(f"---\nname: {name}\ndescription: {said}\n---\nGo.\n")
    places().settings.write_text(f"[rules]\ndeny = {json.dumps(rules)}\n")
    provider = Played(lambda request: "fine")
    options = Options(tmp_path, MODEL)
    session = open_session(options, SETTINGS, approver=None, provider=provider, services=(WORKERS,))
    say(session, "draw the sales charts")
    sent = json.dumps(provider.seen[0])
    listed = skills_report(tmp_path)
    for guide in (*listed["skills"], *listed["agents"]):
        is_hidden = guide["name"] in hidden
        assert (guide["description"] in sent) == (not is_hidden), guide
        assert bool(guide["denied"]) == is_hidden, guide
    assert ("The skill charts may fit" in sent) == ("charts" not in hidden)
    assert [row["name"] for row in listed["skills"] if row["catalogue"]] == sorted({"charts", "tags"} - hidden)
    shown = find_form("skills")(listed, 200)
    assert shown.count("[hidden from the model: deny ") == len(hidden)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("rules", "hidden"),
    [
        (["bash", "agent"], {"bash", "agent"}),
        (["bash", "read_file"], {"bash", "read_file", "edit_file"}),
        (["bash(rm *)", "agent(reviewer)", "read_file(*.key)"], set()),
    ],
)
def test_a_tool_of_which_every_call_is_denied_is_not_offered(
    tmp_path: Path, rules: list[str], hidden: set[str]
) -> None:
    agent = places().config / "agents/reviewer.md"
    agent.parent.mkdir(parents=True)
    agent.write_text("---\nname: reviewer\ndescription: Reviews every change.\n---\nGo.\n")
    places().settings.write_text(f"[rules]\ndeny = {json.dumps(rules)}\n")
    offered = set[str]()

    def script(request: Request) -> Answer:
        offered.update(tool["function"]["name"] for tool in request.tools)
        return "fine" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "rm a"})]

    provider = Played(script)
    session = open_session(Options(tmp_path, MODEL), SETTINGS, approver=None, provider=provider, services=(WORKERS,))
    say(session, "go")
    assert {"bash", "agent", "read_file", "edit_file"} - offered == hidden
    assert f"deny {rules[0]}" in str(provider.seen[-1][-1]["content"]), "a call that is made all the same is denied"
