"""A session keeps the limits of its recipe over front ends and processes, and each request the ones that it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Played, context_report, opened, say, the_ledger

from nexus_cli.commands.context import request_difference
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.reports.context import live_report
from nexus_cli.session.factory import open_session
from nexus_cli.session.open_session import recipe_of
from nexus_cli.session.options import Options

SETTINGS = Settings(models={MODEL: {"window": 16_000}})
LOCKED = '[limits]\nmax_steps = 2\ntools = []\nallow = "read"\n'


@pytest.fixture(autouse=True)
def recipes() -> Path:
    folder = places().config / "recipes"
    folder.mkdir(parents=True)
    (folder / "locked.toml").write_text(LOCKED)
    return folder


def writing(path: Path) -> Played:
    def script(request: Request) -> Any:
        return [("bash", {"command": f"touch {path}"})] if request.messages[-1]["role"] == "user" else "done"

    return Played(script)


def shown(folder: Path, session: str, step: int | None = None, **options: Any) -> Mapping[str, Any]:
    return context_report(Options(folder, MODEL, **options), SETTINGS, session, step)


def limits(value: Mapping[str, Any]) -> dict[str, Any]:
    return {one["name"]: (one["value"], one["bound_by"]) for one in value["limits"]}


@pytest.mark.matrix
def test_a_session_that_is_gone_on_with_keeps_the_limits_of_its_recipe(tmp_path: Path) -> None:
    first = opened(Played(lambda request: "done"), tmp_path, recipe="locked")
    assert say(first, "begin")[1].ok
    again = opened(writing(tmp_path / "made"), tmp_path, first.id)
    assert again.status().recipe == "locked" and again.status().allow == "ask"
    assert say(again, "go on")[1].denied and not (tmp_path / "made").exists()
    value = shown(tmp_path, first.id)
    assert value["recipe"] == "locked" and limits(value)["max_steps"] == (2, "recipe")


@pytest.mark.matrix
def test_another_recipe_takes_its_place_when_it_is_named_and_stays(tmp_path: Path) -> None:
    first = opened(Played(lambda request: "done"), tmp_path, recipe="locked")
    assert say(first, "begin")[1].ok
    assert limits(shown(tmp_path, first.id, recipe="ask")).get("tools") is None
    assert shown(tmp_path, first.id)["recipe"] == "locked"
    again = opened(writing(tmp_path / "made"), tmp_path, first.id, recipe="ask")
    assert say(again, "go on")[1].ok and (tmp_path / "made").exists()
    third = opened(Played(lambda request: "done"), tmp_path, first.id)
    assert third.status().recipe == "ask"
    assert say(third, "and on")[1].ok


@pytest.mark.matrix
@pytest.mark.parametrize(("begun", "goes_on"), [("ask", "chat"), ("chat", "ask")])
def test_a_session_of_one_front_end_goes_on_in_the_recipe_of_the_other(
    tmp_path: Path, recipes: Path, begun: str, goes_on: str
) -> None:
    (recipes / "ask.toml").write_text("[limits]\nmax_steps = 7\n")
    (recipes / "chat.toml").write_text("[limits]\nmax_steps = 8\n")
    first = opened(Played(lambda request: "done"), tmp_path, front=begun)
    assert first.status().recipe == begun and say(first, "begin")[1].ok
    again = opened(Played(lambda request: "done"), tmp_path, first.id, front=goes_on)
    assert again.status().recipe == goes_on and limits(dict(live_report(again)))["max_steps"][0] in (7, 8)
    assert limits(dict(live_report(again)))["max_steps"][0] == (7 if goes_on == "ask" else 8)
    assert say(again, "go on")[1].ok
    assert shown(tmp_path, first.id, 2)["recipe"] == goes_on


def test_a_recipe_that_is_gone_or_broken_stops_the_session_and_every_report_says_how_it_goes_on(
    tmp_path: Path, recipes: Path
) -> None:
    first = opened(Played(lambda request: "done"), tmp_path, recipe="locked")
    assert say(first, "begin")[1].ok
    for spoil in (lambda: (recipes / "locked.toml").write_text("limits = 3\n"), (recipes / "locked.toml").unlink):
        spoil()
        with pytest.raises(NexusError) as raised:
            opened(Played(lambda request: "done"), tmp_path, first.id)
        assert raised.value.exit_status == 2
        assert "locked" in raised.value.line and "--recipe ask" in raised.value.hint
        value = shown(tmp_path, first.id)
        assert raised.value.message in value["notices"][0] and "--recipe ask" in value["notices"][0]
        assert value["recipe"] == "locked" and value["pending"] and value["history"]["entries"] == 2
        assert limits(value)["max_steps"] == (2, "recipe") and limits(value)["tools"] == ([], "recipe")
        other = context_report(Options(tmp_path, "openai/other"), SETTINGS, first.id)
        assert other["model"] == MODEL, "what another model would be sent is the recipe's to say"
        with pytest.raises(NexusError):
            shown(tmp_path, first.id, recipe="locked")
    assert say(opened(Played(lambda request: "done"), tmp_path, first.id, recipe="ask"), "go on")[1].ok


@pytest.mark.matrix
def test_a_sent_request_is_explained_by_what_was_recorded_whatever_became_of_its_recipe(
    tmp_path: Path, recipes: Path
) -> None:
    first = opened(Played(lambda request: "done"), tmp_path, recipe="locked")
    assert say(first, "begin")[1].ok
    (recipes / "locked.toml").unlink()
    value = shown(tmp_path, first.id, 1)
    assert value["recipe"] == "locked" and limits(value)["tools"] == ([], "recipe") and not value["notices"]
    with the_ledger() as ledger:
        assert request_difference(ledger, first.id, SETTINGS, 1)["step"] == 1


@pytest.mark.matrix
def test_each_request_shows_the_limits_that_it_was_sent_under(tmp_path: Path) -> None:
    session = ""
    for steps in (3, 3, 5):
        asked = Options(tmp_path, MODEL, resume=session, limits=Limits(max_steps=steps))
        session = turn(asked)
    found = [limits(shown(tmp_path, session, step))["max_steps"] for step in (1, 2, 3)]
    assert found == [(3, "command line"), (3, "command line"), (5, "command line")]
    with the_ledger() as ledger:
        assert len(ledger.log(session).memos("limits")) == 2, "once per change"


def turn(options: Options) -> str:
    session = open_session(options, SETTINGS, approver=None, provider=Played(lambda request: "done"))
    assert say(session, "words")[1].ok
    return session.id


@pytest.mark.matrix
def test_a_request_of_before_limits_were_recorded_shows_none_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nexus_cli.engine.calls.call_decider.CallDecider.record_limits", lambda self, engine: self.limits
    )
    session = opened(Played(lambda request: "done"), tmp_path)
    assert say(session, "words")[1].ok
    value = shown(tmp_path, session.id, 1)
    assert value["limits"] == [] and "not recorded" in value["notices"][0]


@pytest.mark.matrix
def test_a_session_that_begins_leaves_out_the_schemas_that_its_recipe_never_lets_run(
    tmp_path: Path, recipes: Path
) -> None:
    (recipes / "reader.toml").write_text('[limits]\ncategories = ["read"]\n')
    sent: dict[str, Sequence[str]] = {}

    def script(request: Request) -> str:
        sent[str(request.messages[-1]["content"])[-6:]] = [one["function"]["name"] for one in request.tools]
        return "done"

    assert say(opened(Played(script), tmp_path, recipe="locked"), "locked")[1].ok
    assert say(opened(Played(script), tmp_path, recipe="reader"), "reader")[1].ok
    plain = opened(Played(script), tmp_path)
    assert say(plain, "normal")[1].ok
    assert say(opened(Played(script), tmp_path, plain.id, recipe="locked"), "_later")[1].ok
    assert sent["locked"] == [] and "read_file" in sent["reader"] and "bash" not in sent["reader"]
    assert "bash" in sent["normal"] and sent["_later"] == sent["normal"]
    value = context_report(Options(tmp_path, MODEL, recipe="locked"), SETTINGS, None)
    assert value["tools"] == [] and value["budget"]["used"]["tools"] == 0


def test_a_new_session_has_the_recipe_that_is_named_else_that_of_its_front_end(tmp_path: Path) -> None:
    options = Options(tmp_path, MODEL)
    assert recipe_of(None, options)[0].name == "ask"
    assert recipe_of(None, replace(options, front="chat"))[0].name == "chat"
    assert recipe_of(None, replace(options, front="chat", recipe="locked"))[0].name == "locked"
    with the_ledger() as ledger:
        made = ledger.create_session(
            folder="/f", project="/f", model=MODEL, recipe="locked", at=format_utc(local_now())
        )
        assert recipe_of(made, replace(options, front="chat"))[0].name == "locked"
