"""The first request that the report shows is the one that a session sends in the same place, with the same options."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Played, context_report, say

from nexus_cli.cli import app
from nexus_cli.config.paths import places
from nexus_cli.config.settings import SandboxSettings, Settings
from nexus_cli.core.approval import Deny, Question
from nexus_cli.core.limits import Limits
from nexus_cli.core.wire import canonical
from nexus_cli.service_list import PLANS, SERVICES, WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

WINDOW = {"window": 16_000}


class Nobody:
    """Is there to be asked."""

    async def ask(self, question: Question) -> Deny:
        """The answer."""
        return Deny()


class Sent(Played):
    """Keeps the first two lines of the first request."""

    lines: tuple[bytes, ...] = ()

    def stream(self, request: Any) -> Any:
        """One reply."""
        self.lines = self.lines or (canonical(list(request.tools)), canonical(request.messages[0]["content"]))
        return super().stream(request)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with all that a request may tell of one: instructions, files, a skill, a recipe of one's own."""
    (tmp_path / "NEXUS.md").write_text("Always run the linter.\n")
    (tmp_path / "a.py").write_text("print(1)\n")
    skill = places().config / "skills" / "deploying"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: deploying\ndescription: How we deploy.\n---\nDo it.\n")
    recipes = places().config / "recipes"
    recipes.mkdir()
    (recipes / "reading.toml").write_text('[multipliers]\nworkspace = 0\n[limits]\ntools = ["read_file", "bash"]\n')
    (recipes / "quiet.toml").write_text('[limits]\nmode = "plan_execute"\ncategories = ["read", "none"]\n')
    return tmp_path


def both(options: Options, settings: Settings) -> tuple[Any, Mapping[str, Any], Mapping[str, Any]]:
    """What a new session sent, what the report had said before, and what it says of the request afterwards."""
    services = (WORKERS, PLANS)
    before = context_report(options, settings, None, services=services)
    provider = Sent(lambda request: "done")
    approver = Nobody() if options.interactive else None
    session = open_session(
        replace(options, save=True),
        settings,
        approver=approver,
        provider=provider,
        services=services,
    )
    assert say(session, "zzz")[1].ok
    return provider.lines, before, context_report(options, settings, session.id, 1)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "options",
    sample(
        [
            {},
            {"interactive": True, "front": "chat"},
            {"allow": "all"},
            {"recipe": "reading"},
            {"recipe": "quiet"},
            {"recipe": "reading", "interactive": True},
            {"recipe": "reflection"},
            {"effort": "high"},
            {"backend": "off"},
            {"backend": "off", "interactive": True},
            {"backend": "off", "allow": "all"},
        ],
        3,
    ),
    ids=str,
)
def test_what_a_new_session_sends_is_what_the_report_shows(here: Path, options: dict[str, Any]) -> None:
    given = dict(options)
    sandbox = SandboxSettings(given.pop("backend", "auto"))
    settings = Settings(models={MODEL: WINDOW}, limits=Limits(max_steps=7), sandbox=sandbox)
    lines, before, after = both(Options(here, MODEL, save=False, **given), settings)
    digest = hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
    assert before["prefix_sha256"] == digest, "tools and system text are the same bytes"
    assert [one["name"] for one in before["tools"]] == [one["function"]["name"] for one in json.loads(lines[0])]
    sections = [
        [(one["id"], one["form"], one["counted"]) for one in value["sections"] if one["form"] != "dropped"]
        for value in (before, after)
    ]
    assert sections[0] == sections[1]
    assert before["recipe"] == after["recipe"] and before["limits"] == after["limits"]
    told = "deploying" in lines[1].decode()
    assert told is ('"skill"' in lines[0].decode())


@pytest.mark.matrix
@pytest.mark.parametrize("terminal", [True, False])
def test_the_command_describes_what_plain_nexus_would_begin_here(
    here: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setattr(os, "isatty", lambda number: terminal and number != 1)
    places().settings.parent.mkdir(parents=True, exist_ok=True)
    places().settings.write_text('[sandbox]\nbackend = "off"\n')
    settings = Settings(sandbox=SandboxSettings("off"))
    assert app.run(["context", "--json", "--model", MODEL]) == 0
    value = json.loads(capfd.readouterr().out)
    options = Options(here, MODEL, save=False, front="chat" if terminal else "ask", interactive=terminal)
    assert value["recipe"] == options.front
    asking = (terminal, not terminal)
    every = [replace(options, interactive=asks) for asks in asking]
    reports = (context_report(one, settings, None, services=SERVICES) for one in every)
    same, other = (one["prefix_sha256"] for one in reports)
    assert value["prefix_sha256"] == same != other
