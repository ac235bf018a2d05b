"""Replay to the byte: send the requests of a session through litellm to a server on loopback, and compare the bodies.

Only the same version of litellm makes the same bytes; bodies of another version are skipped. The requests are rebuilt
from the ledger as by `replay`; nothing is sent to a provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.config.settings import Settings
from nexus_cli.context.window.groups import flatten, group_tool_calls
from nexus_cli.context.window.lane import item_of
from nexus_cli.context.window.render import Wire
from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.request import ModelInfo, Request
from nexus_cli.ledger import LaneLog, Ledger, RequestRow, pick_request
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.litellm_env import http_library
from nexus_cli.provider.model_table import model_info
from nexus_cli.provider.rebuild_body import BodyCatcher, hash_rebuilt_body
from nexus_cli.session.limits_record import LIMITS, limits_of

NOBODY = "a key for nobody"
SECONDS = 30.0
"""Time limit of the import of litellm."""
UNLOADED = "litellm could not be loaded here in time"


async def check_wire(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> dict[str, Any]:
    """Compare the bodies of the main lane: the number that is `equal`, the steps that `differ`, those `skipped` by
    reason.

    `beside` has the same for every side lane with requests, with its `lane` and `agent`; empty with `step`. Raises
    `NexusError("usage", ...)` if the request does not exist.
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
    limits = log.memos(LIMITS)
    equal, differ, skipped = 0, [], dict[str, list[int]]()
    for row, request in _requests(log, step):
        again.window = (limits_of(limits, row.manifest) or {}).get("window", 0)
        made_by, _, digest = row.sent.rpartition(" ")
        why = _not_comparable(row, made_by) or await again.unable()
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
    """Makes bodies again; imports the model library for the first one."""

    catcher: BodyCatcher
    address: str
    models: Mapping[str, Mapping[str, object]]
    """Facts of models in the settings."""
    window: int = 0
    """The window recorded with the next request, which some servers are sent; 0 for the present one."""
    backend: LitellmBackend = field(init=False)
    _loaded: bool | None = None

    def __post_init__(self) -> None:
        self.backend = LitellmBackend(api_base=self.address, api_key=NOBODY, info=self._info)

    def _info(self, name: str) -> ModelInfo:
        info = model_info(name, self.models)
        return replace(info, window=self.window or info.window)

    async def unable(self) -> str:
        """Return the reason why no body can be made, or ""."""
        if self._loaded is None:
            self._loaded = await _load_library(self.backend)
        return "" if self._loaded else UNLOADED

    async def body(self, request: Request) -> str:
        """Return the hash of a request's body, "" if litellm made none."""
        return await hash_rebuilt_body(request, self.catcher, self.backend)


async def _load_library(backend: LitellmBackend) -> bool:
    """Import the model library; return False if that has not ended in time."""
    loading = DaemonTask(backend.prepare, SECONDS)
    await run_tasks([loading])
    return loading.ended


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
        wire.extend(flatten(group_tool_calls(map(item_of, log.read(reached + 1, manifest.last)))))
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
