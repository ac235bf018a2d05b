"""`POST /trigger/NAME`: another program starts a run of a service. The answers of the server as JSON are here too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from nexus_cli.core.errors import NexusError
from nexus_cli.core.wire import json_text
from nexus_cli.ledger import Ledger
from nexus_cli.runs.service_triggers import (
    Service,
    TooManyRuns,
    is_token,
    parse_payload,
    queue_service,
    refuse_bad_key,
)

SERVICE = "service"
"""Part of the route that is the name of a service."""
MOST_PAYLOAD = 1 << 20
"""Most bytes of a payload."""
BODY_SECONDS = 30.0
"""Seconds in which a body must arrive."""
RETRY_SECONDS = 60
"""Seconds after which a caller may retry if too many runs wait."""
NO_TEXT = ("multipart", "image", "audio", "video")
"""Content types that cannot be a payload. All others are accepted: many libraries send
`application/x-www-form-urlencoded`."""


class TriggerDoor:
    """The services of one server."""

    def __init__(self, ledger: Ledger, services: Mapping[str, Service]) -> None:
        self._ledger, self._services = ledger, services
        self._lock = asyncio.Lock()
        """Triggers are queued one at a time, so that a flood cannot exceed the bound."""

    def knows(self, name: str, token: str) -> bool:
        """True if the token is that of the service or, for an unknown service, of any service."""
        service = self._services.get(name)
        others = [service] if service else list(self._services.values())
        return any(is_token(token, one) for one in others)

    async def answer(self, request: web.Request) -> web.Response:
        """Queue a run and return its id as the answer."""
        service = self._services.get(request.match_info[SERVICE])
        if service is None:
            return problem_response(404, "no such service")
        given = request.content_type if "Content-Type" in request.headers else ""
        if given.partition("/")[0] in NO_TEXT:
            return problem_response(415, "the body is JSON or text")
        key = request.headers.get("Idempotency-Key", "").strip()
        try:
            refuse_bad_key(key)
            body = await _read_body(request)
            payload = await asyncio.to_thread(parse_payload, body, given)
            async with self._lock:
                queued = await asyncio.to_thread(queue_service, self._ledger, service, payload, key)
        except ValueError as error:
            return problem_response(400, str(error))
        except TooManyRuns:
            why = f"too many runs of {service.name} wait already"
            return problem_response(429, why, {"Retry-After": str(RETRY_SECONDS)})
        except NexusError as error:
            return problem_response(400 if error.kind == "usage" else 503, error.message)
        return json_response({"run": f"run-{queued}"}, 202)


async def _read_body(request: web.Request) -> bytes:
    """Return the body; raise the error answer for one that is too large or too slow."""
    if (request.content_length or 0) > MOST_PAYLOAD:
        raise web.HTTPRequestEntityTooLarge(MOST_PAYLOAD, request.content_length or 0)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > MOST_PAYLOAD:
                    raise web.HTTPRequestEntityTooLarge(MOST_PAYLOAD, len(body))
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    return bytes(body)


def json_response(value: Any, status: int = 200) -> web.Response:
    """Return a value as a JSON answer."""
    # An unpaired surrogate can only be sent as an escape; an id is returned unchanged.
    text = json_text(value, escaped=False, dense=True).encode("utf-8", "backslashreplace")
    headers = {"Cache-Control": "no-store"}
    return web.Response(status=status, body=text, content_type="application/json", headers=headers)


def problem_response(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return the refusal of a request as an answer."""
    text = json_text({"error": why}, escaped=True)
    return web.Response(status=status, text=text + "\n", content_type="application/json", headers=headers)
