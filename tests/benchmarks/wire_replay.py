"""Replay to the byte: send the requests of a session through litellm to a server on loopback, and compare the bodies.

    python tests/benchmarks/wire_replay.py SESSION [STEP]

Only the same version of litellm makes the same bytes; bodies of another version are skipped. The requests are rebuilt
from the ledger as by `replay`; nothing is sent to a provider.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, cast

from nexus_cli.cli.opened_ledger import open_ledger
from nexus_cli.cli.shell_command import ShellSource
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.settings import Settings
from nexus_cli.conversation.groups import flatten, group_tool_calls
from nexus_cli.conversation.render import Wire
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.memo_kinds import LIMITS_IN_FORCE
from nexus_cli.core.request import ModelInfo, Provider, Request
from nexus_cli.ledger import LaneLog, Ledger, RequestRow, pick_request
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.litellm_env import http_library
from nexus_cli.provider.model_table import model_info

NOBODY = "a key for nobody"
SECONDS = 30.0
"""Time limit for building one body; the first one imports litellm."""
REFUSAL = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
"""The answer to every request: no adapter retries it."""


class BodyCatcher:
    """An HTTP server on loopback that keeps the bodies of requests and refuses them all."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> str:
        """Start the server and return its address."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next((line[15:] for line in head.split("\r\n") if line.startswith("content-length:")), "0")
            body = await reader.readexactly(int(length))
            if body:
                self.bodies.append(body)
            writer.write(REFUSAL)
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError, ValueError):
            pass  # not a valid request: the caller finds no body
        finally:
            writer.close()


async def hash_rebuilt_body(request: Request, at: BodyCatcher, through: Provider) -> str:
    """Return the SHA-256 of the body that `through`, which sends to `at`, builds for a request; "" if none arrives."""
    at.bodies.clear()
    try:
        async with asyncio.timeout(SECONDS), aclosing(cast(Any, through.stream(request))) as deltas:
            async for _ in deltas:
                pass
    except (ProviderError, TimeoutError):
        pass  # the catcher refuses every request
    return sha256(at.bodies[-1]).hexdigest() if at.bodies else ""


async def check_wire(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> dict[str, Any]:
    """Compare the bodies of the main lane: the number that is `equal`, the steps that `differ`, those `skipped` by
    reason.

    `beside` has the same for every side lane with requests, with its `lane` and `agent`; empty with `step`. Raises
    `UsageError` if the request does not exist.
    """
    logs = [ledger.log(session)] if step is not None else ledger.logs(session)
    catcher = BodyCatcher()
    async with catcher as address:
        again = _Again(catcher, address, settings.models)
        try:
            found = [await _compare_bodies(again, log, step) for log in logs]
        finally:
            await again.backend.aclose()
    named = [{"lane": log.lane, "agent": log.agent, **one} for log, one in zip(logs, found, strict=True)]
    beside = [one for one in named[1:] if one["equal"] or one["differ"] or one["skipped"]]
    return {"library": http_library(), **found[0], "beside": beside}


async def _compare_bodies(again: _Again, log: LaneLog, step: int | None) -> dict[str, Any]:
    """Compare the bodies of one lane."""
    limits = log.memos(LIMITS_IN_FORCE)
    equal, differ, skipped = 0, [], dict[str, list[int]]()
    for row, request in _requests(log, step):
        again.window = (row.manifest.newest_of(limits) or {}).get("window", 0)
        made_by, _, digest = row.sent_body.rpartition(" ")
        why = _not_comparable(row, made_by)
        now = "" if why else await again.body(request)
        if now == digest and not why:
            equal += 1
        elif now:
            differ.append(row.manifest.step)
        else:
            skipped.setdefault(why or "litellm made no body for it here", []).append(row.manifest.step)
    return {"equal": equal, "differ": differ, "skipped": skipped}


@dataclass
class _Again:
    """Makes bodies again."""

    catcher: BodyCatcher
    address: str
    models: Mapping[str, Mapping[str, object]]
    """Facts of models in the settings."""
    window: int = 0
    """The window recorded with the next request, which some servers are sent; 0 for the present one."""
    backend: LitellmBackend = field(init=False)

    def __post_init__(self) -> None:
        self.backend = LitellmBackend(api_base=self.address, api_key=NOBODY, info=self._info)

    def _info(self, name: str) -> ModelInfo:
        info = model_info(name, self.models)
        return replace(info, window=self.window or info.window)

    async def body(self, request: Request) -> str:
        """Return the hash of a request's body, "" if litellm made none."""
        return await hash_rebuilt_body(request, self.catcher, self.backend)


def _not_comparable(row: RequestRow, made_by: str) -> str:
    if row.usage is None:
        return "it never ended"
    if not made_by:
        return "its body was not recorded"
    return "" if made_by == http_library() else f"it was made by {made_by}, here is {http_library()}"


def _requests(log: LaneLog, step: int | None) -> Iterator[tuple[RequestRow, Request]]:
    """Yield every request of the lane, rebuilt from the ledger as it was passed to the provider."""
    rows = log.requests()
    if step is not None:
        pick_request(rows, step)
    number, reached = -1, 0
    wire: Wire | None = None
    for row in rows:
        manifest = row.manifest
        if wire is None or manifest.epoch != number:
            epoch = log.epoch(manifest.epoch)
            wire, number, reached = Wire(epoch), epoch.id, epoch.base
            wire.extend(flatten(group_tool_calls(epoch.head)))
        wire.extend(flatten(group_tool_calls(map(WindowItem.of, log.read(reached + 1, manifest.last)))))
        reached = manifest.last
        given = manifest.arguments
        if step in (None, manifest.step):
            yield (
                row,
                Request(
                    str(given["model"]),
                    tuple(wire.messages),
                    epoch.tools,
                    int(given["max_output"]),
                    str(given.get("effort", "")),
                    str(given.get("tool_choice", "auto")),
                    str(given.get("cache_key", "")),
                    int(given.get("previous_end", 0)),
                    response_format=str(given.get("response_format", "")),
                ),
            )


def main(words: list[str]) -> int:
    """Print the findings about a session as JSON; 1 if a body differs."""
    ledger = open_ledger()
    step = int(words[1]) if words[1:] else None
    found = asyncio.run(check_wire(ledger, ShellSource(lambda: ledger).find(words[0]), own_settings(), step))
    print(json.dumps(found, indent=2))
    return int(any(one["differ"] for one in (found, *found["beside"])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
