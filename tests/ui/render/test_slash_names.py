"""What is advised in a session can be typed there."""

from __future__ import annotations

from pathlib import Path

import pytest
from ui.repl.test_repl import Stage

from nexus_cli.commands import IS_CLIENT, use_slash_names
from nexus_cli.commands.forms import find_form
from nexus_cli.core.event import Outcome
from nexus_cli.reports.event_texts import describe_denials, describe_failure
from nexus_cli.ui.render.drawn_report import draw_in_theme
from nexus_cli.ui.render.theme import Theme

SAME = (
    "In a shell: nexus memory consolidate",
    "nexus cached it, mynexus cache",
    "nexus runs the hooks",
    "nexus context --session 01M7 --step 3",
    "`nexus plugin add PATH`, nexus mcp add and nexus docs are for a shell",
    "Use `nexus runs resume run-3` in a shell",
    "Use `nexus usage` in a shell",
    "Run `nexus login github-copilot` in another terminal; this session then uses it",
    "Sign in: nexus login github-copilot",
    "cannot read ~/src/nexus runs list.txt",
    "cd tests && nexus status | nexus status",
    "Allowed for this session: bash(nexus status *)",
    "job j1 (nexus runs list) ended after 3 s",
    "| to continue: nexus runs resume run-3",
)
"""Sentences that name no command of a session, and words of others."""
FACT = {"id": "m1", "slot": "project", "at": "2025-01-14T10:00:00.000Z", "source": "the model", "text": "tea is hot"}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("told", "here"),
    [
        ("See `nexus sessions list --all`", "See `/sessions list --all`"),
        ("See `nexus memory list`.", "See `/memory list`."),
        ("`nexus drops show d3` prints it", "`/drops show d3` prints it"),
        ("`nexus cache` lists them; nexus login openai", "`/cache` lists them; /login openai"),
        ("nexus rules remove 'bash(nexus status)'", "/rules remove 'bash(nexus status)'"),
        ("schedule 'p1': there is none. nexus schedule list", "schedule 'p1': there is none. /schedule list"),
        ("`nexus trust` shows its effects", "`/trust` shows its effects"),
        ("`nexus login openai --as work` stores a key", "`/login openai --as work` stores a key"),
        ("To write to a file: nexus export -o a.md", "To write to a file: /export -o a.md"),
        ("`nexus logout openai --as work` removes it", "`/logout openai --as work` removes it"),
        ("Use nexus runs show run-3. nexus cache in a shell", "Use /runs show run-3. nexus cache in a shell"),
        *((same, same) for same in SAME),
    ],
)
def test_a_command_of_the_shell_becomes_its_slash_form_where_there_is_one(told: str, here: str) -> None:
    assert use_slash_names(told) == here


@pytest.mark.parametrize(
    ("told", "here"),
    [
        ("See `nexus sessions list` and nexus config.", "See `/sessions list` and /config."),
        (
            "To set it: nexus config set model X",
            "To set it: nexus config set model X (in a shell on the server's machine)",
        ),
        ("nexus mcp list; nexus mcp login x", "/mcp list; nexus mcp login x (in a shell on the server's machine)"),
        ("`nexus trust` shows it", "`nexus trust` shows it (in a shell on the server's machine)"),
        (
            "/add-dir DIR lets tools work there.",
            "/add-dir DIR lets tools work there (in a session on the server's machine).",
        ),
        (
            "/config ui.keys vi turns on vi keys",
            "/config ui.keys vi turns on vi keys (in a session on the server's machine)",
        ),
        ("/login: not available here; /config lists", "/login: not available here; /config lists"),
    ],
)
def test_a_client_is_told_where_a_command_can_be_given_that_it_may_not_give(told: str, here: str) -> None:
    token = IS_CLIENT.set(True)
    try:
        assert use_slash_names(told) == here
    finally:
        IS_CLIENT.reset(token)


def test_a_report_names_the_commands_of_its_front_end() -> None:
    value = {"facts": [{**FACT, "state": "proposed"}]}
    assert "accept: /memory accept m1)" in draw_in_theme("memory", value, 200, Theme())
    assert "accept: nexus memory accept m1)" in find_form("memory")(value, 200), "also after a session has drawn one"


def test_a_refused_call_and_the_words_of_a_failure_stay_as_they_are() -> None:
    call = {"tool": "bash", "subject": "nexus status", "rule": "bash(nexus status)"}
    told = describe_denials([call], "/permissions", use_slash_names)
    way = "To allow it here: /rules add --here 'allow bash(nexus status)'."
    assert told == f"1 call was refused: bash nexus status. {way}"
    error = {"kind": "limit", "message": "stopped: `nexus status` exits 1", "hint": "See `nexus cache`"}
    told = describe_failure(Outcome(ok=False, exit=3, error=error), use_slash_names)
    assert told == "stopped: `nexus status` exits 1. See `/cache`."


@pytest.mark.matrix
async def test_errors_of_commands_advise_what_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    stage = Stage(tmp_path, lambda request: "answer")

    async with stage.running():
        await stage.say("words")
        for line in ("/memory forget m9", "/resume nosuch", "/model nonsense", "/cache why 99"):
            await stage.say(line)
    text = " ".join(stage.text.split())
    for advice in ("See `/memory list`.", "See `/sessions list`.", "/model list", " request. `/cache` lists"):
        assert advice in text
    assert "nexus memory" not in text and "nexus sessions" not in text and "nexus model" not in text
