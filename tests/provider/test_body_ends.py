"""Every way in which the body of an answer can end on the wire, in every wire form, with and without the last mark."""

from __future__ import annotations

import asyncio
import os
import random
from itertools import cycle
from typing import Any

import pytest
from provider.talk import MODELS, Heard, hear, request
from search import sample
from server.framing import FRAMINGS
from server.play import ScriptedServer

from nexus_cli.provider.litellm_backend import LitellmBackend

FORMS = pytest.mark.parametrize("form", sample(list(MODELS), 2))
TEXT = "one two three four five six seven"
SECONDS = 300.0
"""Until a request that hangs fails its test: far more than any of them takes."""


def answered(server: ScriptedServer, form: str, *steps: dict[str, Any]) -> list[Heard]:
    """The answers to `steps`, asked for one after another through one backend; its connections may be kept."""
    server.load(list(steps))

    async def run() -> list[Heard]:
        backend = LitellmBackend(api_base=server.base(form), api_key="sk-test-0123456789")
        try:
            async with asyncio.timeout(SECONDS):
                return [await heard_at_last(backend, form, server) for _ in steps]
        finally:
            await backend.aclose()

    return asyncio.run(run())


async def heard_at_last(backend: LitellmBackend, form: str, server: ScriptedServer) -> Heard:
    """One answer; asked for once more where the server had closed a kept connection before it saw the request."""
    seen = len(server.requests)
    heard = await hear(backend, request(MODELS[form]))
    return heard if len(server.requests) > seen else await hear(backend, request(MODELS[form]))


@pytest.mark.matrix
@FORMS
def test_an_answer_is_whole_however_its_body_ends(form: str, model_server: ScriptedServer) -> None:
    for framing in FRAMINGS:
        step = {"text": TEXT, "framing": framing}
        for heard in answered(model_server, form, step, step):
            assert heard.error is None, framing
            assert (heard.reply.finish, heard.reply.message.content) == ("stop", TEXT), framing


@pytest.mark.matrix
@FORMS
def test_an_answer_without_the_last_mark_counts_after_its_reason(form: str, model_server: ScriptedServer) -> None:
    for framing in FRAMINGS:
        step = {"text": TEXT, "framing": framing, "fault": "no_done"}
        for heard in answered(model_server, form, step, step):
            assert heard.error is None, framing
            if form != "ollama":  # its last mark carries the reason
                assert (heard.reply.finish, heard.reply.message.content) == ("stop", TEXT), framing


@pytest.mark.matrix
@FORMS
@pytest.mark.parametrize(("fault", "expected"), sample([("no_finish", ("none", TEXT)), ("empty", ("empty", ""))], 3))
def test_an_answer_without_a_reason_is_not_finished(
    form: str, fault: str, expected: tuple[str, str], model_server: ScriptedServer
) -> None:
    for framing in FRAMINGS:
        step = {"text": TEXT, "framing": framing, "fault": fault}
        for heard in answered(model_server, form, step, step):
            assert heard.error is None, framing
            assert (heard.reply.finish, heard.reply.message.content) == expected, framing


@pytest.mark.parametrize("after", sample([-1, 0, 2], 3))
@FORMS
def test_a_body_that_is_cut_is_never_finished(form: str, after: int, model_server: ScriptedServer) -> None:
    for framing in FRAMINGS:
        step = {"text": TEXT, "framing": framing, "fault": {"kind": "cut", "after": after}}
        (heard,) = answered(model_server, form, step)
        assert heard.error is not None or heard.reply.finish in ("none", "empty"), framing
        assert TEXT.startswith(heard.reply.message.content), framing


DAMAGES = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "search" else 40
STALL = 0.1
"""Seconds: a body that is shorter than announced is waited for so long."""


@pytest.mark.matrix
@pytest.mark.parametrize("form", sample(["chat", "anthropic", "gemini"], 3))
async def test_a_damaged_stream_ends_within_its_limits(form: str, model_server: ScriptedServer) -> None:
    call = {"name": "look", "arguments": {"at": "x"}}
    rng = random.Random(form)
    model_server.load(
        [
            {
                "text": TEXT,
                "thinking": "hm" * rng.randrange(2),
                "calls": [call] * rng.randrange(3),
                "framing": framing,
                "fault": {"kind": "damage", "seed": rng.randrange(1 << 30)},
            }
            for _, framing in zip(range(DAMAGES), cycle(FRAMINGS), strict=False)
        ]
    )

    backend = LitellmBackend(api_base=model_server.base(form), api_key="sk-test-0123456789")
    broken = 0
    try:
        for _ in range(DAMAGES):
            async with asyncio.timeout(SECONDS):
                heard = await hear(backend, request(MODELS[form], stall_seconds=STALL))
            broken += heard.error is not None or heard.reply.finish not in ("stop", "tool_calls")
    finally:
        await backend.aclose()
    assert 0 < broken < DAMAGES
