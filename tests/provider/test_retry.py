"""Retrying: how often, how long, with which bytes, and when not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider.talk import MODELS, request
from server.play import ScriptedServer

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import Delta, Request, RetryDelta, TextDelta
from nexus_cli.provider import retry
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.retry import LONGEST_WAIT, RATE_WINDOW, RetryingProvider, backoff_seconds


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Let the time of retries be this one, within the block."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retry, "sleep", self.sleep)
            patch.setattr(retry, "monotonic", lambda: self.now)
            yield


class Failing:
    """Fails as scripted, then answers; a `str` is a delta that comes before the failure behind it."""

    def __init__(self, *script: ProviderError | str) -> None:
        self.script = list(script)
        self.asked: list[Request] = []

    async def stream(self, asked: Request) -> AsyncIterator[Delta]:
        self.asked.append(asked)
        while self.script:
            step = self.script.pop(0)
            if isinstance(step, ProviderError):
                raise step
            yield TextDelta(step)
        yield TextDelta("done")


def limited(retry_after: float | None = None, **fields: Any) -> ProviderError:
    return ProviderError("rate_limit", "slow down", retry_after=retry_after, **{"transient": True, **fields})


def run(inner: Failing, **options: Any) -> tuple[list[Delta], ProviderError | None, Clock]:
    clock = Clock()
    deltas: list[Delta] = []
    tried = RetryingProvider(inner, **options)

    async def go() -> ProviderError | None:
        try:
            async for delta in tried.stream(request("openai/m")):
                deltas.append(delta)
        except ProviderError as error:
            return error
        return None

    with clock.passing():
        return deltas, asyncio.run(go()), clock


def test_it_waits_longer_each_time_says_so_and_gives_the_same_request() -> None:
    inner = Failing(limited(), limited(), limited())
    deltas, error, clock = run(inner)
    assert error is None
    retries = [d for d in deltas if isinstance(d, RetryDelta)]
    assert [(r.attempt, r.why) for r in retries] == [(1, "slow down"), (2, "slow down"), (3, "slow down")]
    assert [r.wait for r in retries] == clock.waits == sorted(clock.waits)
    assert len({id(a) for a in inner.asked}) == 1
    assert deltas[-1] == TextDelta("done")


def test_it_gives_up_after_so_many_tries_with_the_kind_unchanged() -> None:
    inner = Failing(*[ProviderError("overloaded", "busy", transient=True) for _ in range(9)])
    _, error, clock = run(inner, tries=4)
    assert error is not None and error.kind == "overloaded"
    assert (len(inner.asked), len(clock.waits)) == (4, 3)


@given(st.integers(2, 9))
def test_a_limit_of_requests_by_the_minute_is_outlived(tries: int) -> None:
    inner = Failing(*[limited() for _ in range(40)])
    _, error, clock = run(inner, tries=tries)
    assert error is not None and error.kind == "rate_limit"
    assert 60 < sum(clock.waits) <= 120


@pytest.mark.parametrize("asked", [None, 20.0, 50.0])
def test_tries_beyond_the_number_end_with_the_minute(asked: float | None) -> None:
    inner = Failing(*[limited(asked) for _ in range(40)])
    _, error, clock = run(inner, tries=2)
    assert error is not None and clock.now == pytest.approx(RATE_WINDOW)


def test_who_wants_no_retry_gets_none_of_a_rate_limit_either() -> None:
    inner = Failing(limited())
    _, error, clock = run(inner, tries=1)
    assert error is not None and clock.waits == []


def test_it_waits_as_long_as_it_is_asked_to() -> None:
    _, error, clock = run(Failing(limited(17.0)))
    assert (error, clock.waits) == (None, [17.0])


def test_a_wait_that_exceeds_the_time_left_is_not_begun() -> None:
    inner = Failing(limited(50.0), limited(90.0))
    _, error, clock = run(inner, seconds=120.0)
    assert error is not None and clock.waits == [50.0] and len(inner.asked) == 2


@pytest.mark.parametrize(
    "script",
    [
        ["first", limited()],
        [limited(started=True)],
        [limited(transient=False)],
        [ProviderError("auth", "no")],
        [ProviderError("overflow", "too long", limit=10)],
    ],
)
def test_some_failures_are_final(script: list[ProviderError | str]) -> None:
    inner = Failing(*script)
    _, error, clock = run(inner)
    assert error is not None and clock.waits == [] and len(inner.asked) == 1


@given(st.integers(1, 60))
def test_the_back_off_is_positive_and_bounded(attempt: int) -> None:
    assert 0 < backoff_seconds(attempt) <= LONGEST_WAIT


@pytest.mark.matrix
@pytest.mark.parametrize("form", list(MODELS))
async def test_the_server_counts_the_tries_and_sees_the_same_bytes(form: str, model_server: ScriptedServer) -> None:
    limit = {"status": 429, "retry_after": 1}
    model_server.load([{"fault": limit}, {"fault": 503}, {"fault": "close_before_head"}, "ok"])
    clock = Clock()

    with clock.passing():
        backend = LitellmBackend(api_base=model_server.base(form), api_key="k")
        deltas = [delta async for delta in RetryingProvider(backend).stream(request(MODELS[form], cache_key="k1"))]
    assert [d for d in deltas if isinstance(d, TextDelta)] == [TextDelta("ok")]
    assert len(model_server.requests) == 4
    assert len({r.raw for r in model_server.requests}) == 1
    assert clock.waits[0] >= 1.0


async def test_nothing_is_sent_again_after_the_first_token(model_server: ScriptedServer) -> None:
    model_server.load([{"text": "one two three four five six", "fault": "reset"}])
    backend = LitellmBackend(api_base=model_server.base("chat"), api_key="k")

    with pytest.raises(ProviderError) as raised:
        async for _ in RetryingProvider(backend).stream(request(MODELS["chat"])):
            pass
    assert raised.value.started
    assert len(model_server.requests) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["chat", "anthropic"])
def test_each_attempt_tells_when_it_goes_out(form: str, model_server: ScriptedServer) -> None:
    refused = {"fault": {"status": 503, "retry_after": 0}}
    model_server.load([refused, {"text": "late", "fault": {"kind": "stall_before_head", "seconds": 60}}])

    async def stop(base: str, when: Callable[[], object]) -> Request:
        asked = request(MODELS[form])
        stream = RetryingProvider(LitellmBackend(api_base=base, api_key="k")).stream(asked)
        retries = 0

        async def read() -> None:
            nonlocal retries
            async for delta in stream:
                retries += isinstance(delta, RetryDelta)
                assert not asked.sending.is_sent, "the server has refused it"

        task = asyncio.create_task(read())
        await asyncio.to_thread(when)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert retries == len(model_server.requests[:-1])
        return asked

    with socket.create_server(("127.0.0.1", 0)) as mute:  # whose TLS handshake never ends
        address = f"https://127.0.0.1:{mute.getsockname()[1]}/v1"
        kept = list[object]()
        asked = asyncio.run(stop(address, lambda: kept.append(mute.accept())))
    assert not asked.sending.is_sent and not model_server.requests
    asked = asyncio.run(stop(model_server.base(form), lambda: model_server.wait_for(lambda s: len(s.requests) == 2)))
    assert asked.sending.is_sent


async def test_a_wait_can_be_interrupted() -> None:
    stream = RetryingProvider(Failing(limited(100.0))).stream(request("openai/m"))
    assert isinstance(await anext(stream), RetryDelta)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
