"""What is advised in a session can be typed there."""

from __future__ import annotations

from pathlib import Path

import pytest
from ui.repl.test_repl import Stage

from nexus_cli.commands import discover
from nexus_cli.reports.event_texts import HERE, use_slash_names


def test_every_form_names_a_command_that_there_is() -> None:
    assert {form.split()[0][1:] for form in HERE.values()} <= set(discover())


@pytest.mark.parametrize(
    ("told", "here"),
    [
        ("See `nexus sessions list`", "See /resume"),
        ("See nexus memory list.", "See /memory."),
        ("`nexus drops show d3` prints it", "`/drops d3` prints it"),
        ("`nexus cache` lists them", "/cache lists them"),
        ("In a shell: nexus memory consolidate", "In a shell: nexus memory consolidate"),
        ("nexus cached it, mynexus cache", "nexus cached it, mynexus cache"),
        ("`nexus doctor` says what to do", "`nexus doctor` says what to do"),
    ],
)
def test_a_command_of_the_shell_becomes_its_slash_form_where_there_is_one(told: str, here: str) -> None:
    assert use_slash_names(told) == here


@pytest.mark.matrix
def test_errors_of_commands_advise_what_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    stage = Stage(tmp_path, lambda request: "answer")

    async def scene() -> None:
        stage.type("words")
        await stage.idle()
        for line in ("/memory forget m9", "/resume nosuch", "/model nonsense", "/cache why 99"):
            stage.type(line)
            await stage.idle()

    stage.play(scene())
    text = " ".join(stage.text.split())
    for advice in ("See /memory.", "See /resume.", "/model lists usable models", "counted from 1. /cache lists"):
        assert advice in text
    assert "nexus memory" not in text and "nexus sessions" not in text and "nexus model" not in text
