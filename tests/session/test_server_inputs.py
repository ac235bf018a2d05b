"""Arguments of prompts, the images of servers that a model gets, and what it is told of a changed entry."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from images import png
from session.played import MODEL, Played

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.event import Notice
from nexus_cli.core.image_check import MAX_IMAGES, choose_images
from nexus_cli.core.message import ToolResult
from nexus_cli.core.request import ModelInfo
from nexus_cli.engine.requests.control import Control
from nexus_cli.mcp.server_entries import read_servers
from nexus_cli.mcp.server_values import ServerOffer, ServerPrompt, ServerTool
from nexus_cli.mcp.tool_cache import make_list, store_list
from nexus_cli.service_list import SERVERS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.server_inputs import CALL, RESOURCE, read_arguments

REVIEW = ServerPrompt("review", "Review it.", (("file", True), ("tone", False)))


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("", {}),
        ("a.py", {"file": "a.py"}),
        ("'my file.py' very kind", {"file": "my file.py", "tone": "very kind"}),
        ("tone=stern a.py", {"tone": "stern", "file": "a.py"}),
        ("other=1 kind", {"file": "other=1", "tone": "kind"}),
        ("it's fine", {"file": "it's", "tone": "fine"}),
    ],
)
def test_arguments_of_a_prompt_are_given_in_order_or_by_name(typed: str, given: dict[str, str]) -> None:
    assert read_arguments(REVIEW, typed) == given
    assert REVIEW.usage == "FILE [TONE]"


def test_words_without_arguments_are_left_out() -> None:
    assert read_arguments(ServerPrompt("all", ""), "whatever this is") == {}


def test_only_a_server_with_a_uri_is_a_resource() -> None:
    text = "see @notes:note://all, git@host:file:x, @a.py:3-5, @other and (@db:postgres://h/t)"
    assert RESOURCE.findall(text) == [("notes", "note://all,"), ("db", "postgres://h/t)")]
    assert CALL.fullmatch("/mcp__git__review a b") and not CALL.fullmatch("/mcp") and not CALL.fullmatch("x /mcp__a__b")


def test_an_image_is_sent_whole_or_named_with_its_size() -> None:
    good = png()
    parts, lines, _ = choose_images([("image/jpg", good)], None)
    assert [(one.media_type, one.data) for one in parts] == [("image/png", good)], "its bytes say what it is"
    assert lines == [f"[image/png, {len(good)} bytes: attached]"]
    for kind, data, why in (
        ("image/png", good[:-3], "not a complete PNG"),
        ("image/svg+xml", b"<svg/>", "not a complete PNG"),
        ("image/png", png(9_000, 1), "9,000 x 1 pixels"),
    ):
        parts, lines, _ = choose_images([(kind, data)], None)
        assert not parts and why in lines[0] and f"{len(data):,} bytes" in lines[0]
    assert choose_images([("image/png", good)], ModelInfo("m", "p", 1000))[0] == []
    assert len(choose_images([("image/png", good)] * 20, None)[0]) == MAX_IMAGES
    drawn = ToolResult("drawn", images=(("image/png", good[:-3]),), warning="sh exited 3")
    control, model = Control(), ModelInfo("m", "p", 1000, images=True)
    told = control.take_images("bash", drawn, model)
    assert not told.counts and not control.images
    assert control.take_images("bash", replace(drawn, images=(("image/png", good),)), model).counts["images"] == 1
    assert [one.data for one in control.pop_images()] == [good] and not control.images
    assert told.warning.startswith("sh exited 3; ") and "not a complete PNG" in told.warning


def test_a_server_is_told_again_if_it_changed_and_not_if_another_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROGRAM", "/usr/bin/true")
    config = places().config / "config.toml"
    config.parent.mkdir(parents=True)

    def configure(command: str, call_seconds: int) -> None:
        config.write_text(f'[mcp.notes]\ncommand = ["{command}"]\ncall_seconds = {call_seconds}\n')
        tool = ServerTool("add", "Add a note.", {"type": "object", "properties": {}})
        store_list(read_servers(tmp_path).entries["notes"], make_list(ServerOffer((tool,))))

    async def play() -> list[list[str]]:
        configure("${PROGRAM}", 60)
        options, settings = Options(tmp_path, MODEL, interactive=True), Settings(models={MODEL: {"window": 24_000}})
        provider = Played(lambda request: "done")
        session = open_session(options, settings, approver=None, provider=provider, services=(SERVERS,))
        texts = []
        for command, call_seconds in (("${PROGRAM}", 60), ("/usr/bin/true", 60), ("/usr/bin/true", 61)):
            configure(command, call_seconds)
            events = [event async for event in session.run("go on")]
            texts.append([event.text for event in events if isinstance(event, Notice) and "notes" in event.text])
        await session.aclose()
        return texts

    assert asyncio.run(play()) == [[], [], ["MCP server notes: 1 tool to be sent after the next compaction"]]
