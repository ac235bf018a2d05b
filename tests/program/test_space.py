"""Spaces with the whole program: real litellm, a scripted model, agents that answer, processes that are killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage

from nexus_cli.ledger import Ledger

ME = '[spaces]\nname = "Husam"\n'
SPACE = "Project Alpha"


def whose(body: Any) -> str:
    """The agent whose request it is, by its IDENTITY block."""
    return next(name for name in ("Ana", "Bob") if f'name: "{name}"' in json.dumps(body).replace('\\"', '"'))


def play(body: Any) -> Any:
    """Ana asks Bob and waits, Bob answers, Ana tells Husam."""
    role = body["messages"][-1]["role"]
    if whose(body) == "Bob":
        return calls(("send_message", {"text": "@Ana 1, 2, 3"})) if role == "user" else {"text": "told her"}
    if role == "tool":
        return {"text": "all said"}
    if "RESUME" in json.dumps(body):
        return calls(("send_message", {"text": "The figures are 1, 2, 3."}))
    return calls(("send_message", {"text": "@Bob the figures?", "wait": True}))


def begun(place: Stage, *agents: str) -> None:
    place.settings(QUICK + PRICED + ME)
    named = [word for name in agents for word in ("--agent", name)]
    assert place.run("space", "create", SPACE, "--member", "Sarah", *named).status == 0


def said(place: Stage, name: str = "Husam") -> list[str]:
    """What was said, as one member reads it."""
    value = place.run("space", "read", SPACE, "--json", "--as", name).result
    return [f"{one['sender']['name']}: {one['text']}" for one in value["messages"]]


SCENE = ["Husam: @Ana get the figures", "Ana: @Bob the figures?", "Bob: @Ana 1, 2, 3", "Ana: The figures are 1, 2, 3."]


def test_agents_answer_who_opens_the_space(tmp_path: Path) -> None:
    with stage(tmp_path, play) as place:
        begun(place, "Ana", "Bob")
        done = place.run("space", "open", SPACE, stdin=b"@Ana get the figures\n")
        assert done.status == 0 and not done.stderr, done.stderr
        lines = [line.partition(" ")[2] for line in done.text.splitlines()]
        for line in SCENE:
            name, _, text = line.partition(": ")
            kind = "" if name == "Husam" else " (agent)"
            assert f"{name}{kind}: {text}" in lines, done.text
        assert said(place) == SCENE
        seen = place.run("timeline", "--run", "run-2")
        assert (
            seen.status == 0
            and "[msg:1]" in seen.text
            and "Ana (space_message): " in seen.text
            and "Husam: [msg:1]" in seen.text
        ), seen.stderr
        first = json.dumps(place.server.requests[0].body)
        assert "SPACE HISTORY" in first and first.count("<- TRIGGER") + first.count("\\u2190 TRIGGER") == 1
        names = {one["function"]["name"] for one in place.server.requests[0].body["tools"]}
        assert {"send_message", "send_reply", "enter_space", "read_messages", "get_my_runs"} <= names


@pytest.mark.matrix
def test_what_a_run_left_behind_stands_beside_its_message(tmp_path: Path) -> None:
    """Ana says that all is well, and a command of hers failed: the space says both, live and later."""

    def lie(body: Any) -> Any:
        said = [one["role"] for one in body["messages"]].count("tool")
        acts = (("bash", {"command": "ls; exit 3"}), ("send_message", {"text": "All tests pass."}))
        return calls(acts[said]) if said < len(acts) else {"text": "said"}

    with stage(tmp_path, lie) as place:
        place.settings(QUICK + PRICED + ME + '[agents.Ana]\nallow = "all"\n[runs]\nallow = "all"\n')
        place.run("space", "create", SPACE, "--agent", "Ana")
        live = place.run("space", "open", SPACE, stdin=b"@Ana test it\n")
        assert live.text.splitlines()[-1].strip() == "[run-1: 1 command failed]", live.text
        mine, hers = place.run("space", "read", SPACE, "--json").result["messages"]
        assert (mine["run"], mine["facts"]) == (None, [])
        assert (hers["text"], hers["run"], hers["facts"]) == ("All tests pass.", "run-1", ["1 command failed"])
        lines = place.run("space", "read", SPACE).text.splitlines()
        assert lines[-1].strip() == "[run-1: 1 command failed]" and lines[-2].endswith("All tests pass."), lines


@pytest.mark.matrix
def test_an_agent_that_is_offered_a_message_may_stay_silent(tmp_path: Path) -> None:
    with stage(tmp_path, lambda body: {"text": "not for me"}) as place:
        begun(place, "Ana")
        done = place.run("space", "open", SPACE, stdin=b"what would ana say?\n")
        assert done.status == 0 and said(place) == ["Husam: what would ana say?"]
        assert "proactive_router" in json.dumps(place.server.requests[0].body)


def test_a_muted_agent_is_started_by_nobody_until_it_is_taken_back(tmp_path: Path) -> None:
    with stage(tmp_path, lambda body: {"text": "here"}) as place:
        begun(place, "Ana")
        assert place.run("space", "mute", SPACE, "Husam").status == 2
        assert place.run("space", "mute", SPACE, "ana").told == [f"nexus: agent Ana is muted in {SPACE}."]
        posted = place.run("space", "post", SPACE, "@Ana look")
        assert posted.told[0].startswith("nexus: not started: Ana is muted here. To unmute: /unmute Ana"), posted
        assert place.run("space", "mute", SPACE, "Ana", "--off").status == 0
        again = place.run("space", "post", SPACE, "@Ana look", "--json").result
        assert [one["run"] for one in again["triggered"]] == ["run-1"] and again["message"]["quiet"] is None


@pytest.mark.matrix
def test_a_plain_session_of_a_member_speaks_as_nexus(tmp_path: Path) -> None:
    def script(body: Any) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return {"text": "posted"}
        return calls(("send_message", {"text": "the build is green", "space": SPACE}))

    with stage(tmp_path, script) as place:
        begun(place, "nexus")
        assert place.ask("tell them that the build is green", "--allow", "edit").text == "posted\n"
        assert said(place) == ["nexus: the build is green"]
        assert place.run("space", "leave", SPACE, "--as", "nexus").status == 0
        place.script([{"text": "nobody to tell"}])
        place.ask("and now")
        offered = {one["function"]["name"] for one in place.server.requests[-1].body["tools"]}
        assert "send_message" not in offered


@pytest.mark.matrix
def test_a_plain_session_that_waits_for_an_answer_goes_on_when_it_came(tmp_path: Path) -> None:
    def script(body: Any) -> Any:
        if "RESUME" in json.dumps(body):
            return {"text": "she said yes"}
        return calls(("send_message", {"text": "@Sarah shall we ship?", "space": SPACE, "wait": True}))

    with stage(tmp_path, script) as place:
        begun(place, "nexus")
        asked = place.ask("ask Sarah whether we ship", "--json", "--allow", "edit")
        assert (asked.status, asked.kind) == (3, "waiting")
        assert place.run("serve", "--once").status == 0 and len(place.server.requests) == 1
        done = place.run("space", "post", SPACE, "--as", "Sarah", "@nexus yes", "--json").result
        assert done["resumed"] == ["run-1"] and done["triggered"] == []
        answered = place.run("serve", "--once")
        assert answered.status == 0 and "run-1" in answered.text
        assert "@nexus yes" in json.dumps(place.server.requests[-1].body["messages"])
        ledger = Ledger.open(place.ledger)
        run = ledger.runs.get(1)
        ledger.close()
        assert (run.state, run.report) == ("done", "she said yes")


@pytest.mark.matrix
def test_nexus_context_of_a_member_shows_the_request_that_is_sent(tmp_path: Path) -> None:
    with stage(tmp_path, [{"text": "hello"}, {"text": "again"}]) as place:
        begun(place, "nexus")
        before = place.run("context", "--json").result
        assert place.ask("zzz").text == "hello\n"
        sent = place.server.requests[-1].body
        after = place.run("context", "--json", "--step", "1").result
        names = [one["function"]["name"] for one in sent["tools"]]
        assert "send_message" in names and [one["name"] for one in before["tools"]] == names
        shown = [[(one["id"], one["counted"]) for one in value["sections"]] for value in (before, after)]
        assert shown[0] == shown[1]
        counted = [{name: value["counted"][name] for name in ("system", "tools", "event")} for value in (before, after)]
        assert counted[0] == counted[1]
        other = place.run("context", "--json", "--model", "openai/gpt-4o").result
        assert [one["name"] for one in other["tools"]] == names
