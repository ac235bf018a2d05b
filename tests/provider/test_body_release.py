"""The body of a request takes no memory once its answer is read: collection of cycles may be many steps away."""

from __future__ import annotations

import gc
from typing import Any

import httpx
import pytest
from provider.talk import MODELS, hear, request
from search import sample
from server.play import ScriptedServer

from nexus_cli.provider.litellm_backend import LitellmBackend

LARGE = 100_000


def held_bodies() -> list[int]:
    """The sizes of the large request bodies that some object still has."""
    bodies = [getattr(one, "_content", b"") for one in gc.get_objects() if isinstance(one, httpx.Request)]
    streams = [one._stream for one in gc.get_objects() if isinstance(one, httpx.ByteStream)]
    return [len(body) for body in (*bodies, *streams) if len(body) > LARGE]


ANSWERED: dict[str, Any] = {"text": "done"}
CUT: dict[str, Any] = {"text": "done", "fault": "cut"}
FAILED: dict[str, Any] = {"fault": {"kind": "status", "status": 500}}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("form", "step"), sample([*((form, step) for form in MODELS for step in (ANSWERED, CUT)), ("chat", FAILED)], 3)
)
async def test_no_body_outlives_its_answer(form: str, step: dict[str, Any], model_server: ScriptedServer) -> None:
    model_server.load([step] * 3)
    messages = ({"role": "user", "content": "word " * LARGE},)

    gc.collect()
    gc.disable()
    try:
        backend = LitellmBackend(api_base=model_server.base(form), api_key="sk-test-0123456789")
        for _ in range(3):
            await hear(backend, request(MODELS[form], messages))
        assert len(model_server.requests) == 3
        assert not held_bodies()
        await backend.aclose()
    finally:
        gc.enable()
