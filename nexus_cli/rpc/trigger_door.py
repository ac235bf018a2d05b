"""`POST /trigger/NAME`: another program starts or resumes a run. The answers of the server as JSON are here too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.wire import json_text
from nexus_cli.ledger import Ledger
from nexus_cli.runs.seen_deliveries import is_replayed
from nexus_cli.runs.service_triggers import (
    Service,
    TooManyRuns,
    parse_payload,
    refuse_bad_key,
    resume_waiting,
    take_event,
)
from nexus_cli.runs.webhook_senders import FORM, SIGNING, ServiceEvent, form_payload, read_event, refuse_unsigned

SERVICE = "service"
"""Part of the route that is the name of a service."""
MAX_PAYLOAD = 1 << 20
"""Most bytes of a payload."""
BODY_SECONDS = 30.0
"""Seconds in which a body must arrive."""
RETRY_SECONDS = 60
"""Seconds after which a caller may retry if too many runs wait."""
NO_TEXT = ("multipart", "image", "audio", "video")
"""Content types that cannot be a payload. All others are accepted: many libraries send
`application/x-www-form-urlencoded`."""
MAX_EARLY, EARLY_SECONDS = 20, 120.0
"""Events that are kept for runs which begin to wait for them, and for how long: CI may be faster than a model."""


class TriggerDoor:
    """The services of one server. Implements `RunProducer`, for events that come before a run waits for them."""

    def __init__(self, ledger: Ledger, services: Mapping[str, Service]) -> None:
        self._ledger, self._services = ledger, services
        self._lock = asyncio.Lock()
        """Triggers are queued one at a time, so that a flood cannot exceed the bound."""
        self._early: list[tuple[datetime, Service, ServiceEvent]] = []
        """Events that no run waited for, and when they came."""

    def admits(self, request: web.Request) -> bool:
        """Return False if a request shows no token of its service, or for an unknown one no token at all."""
        service = self._find(request)
        if service is not None and service.sender in SIGNING:
            return True
        services = (
            [service]
            if service
            else [candidate for candidate in self._services.values() if not candidate.is_from_outside]
        )
        return any(not _refuse(candidate, request, b"") for candidate in services)

    def is_from_outside(self, request: web.Request) -> bool:
        """True for a service whose sender comes through a proxy, with the name of that in Host."""
        service = self._find(request)
        return service is not None and service.is_from_outside

    def _find(self, request: web.Request) -> Service | None:
        return self._services.get(request.match_info.get(SERVICE, ""))

    async def answer(self, request: web.Request) -> web.Response:
        """Resume or queue a run and return its id as the answer."""
        service = self._find(request)
        if service is None:
            return problem_response(404, "no such service")
        media_type = request.content_type if "Content-Type" in request.headers else ""
        if media_type.partition("/")[0] in NO_TEXT:
            return problem_response(415, "the body must be JSON or text")
        try:
            refuse_bad_key(request.headers.get("Idempotency-Key", "").strip())
            body = await _read_body(request)
            if why := _refuse(service, request, body):
                return problem_response(401, why)
            event = await asyncio.to_thread(_read_event, service, request, body, media_type)
            if event.challenge:
                return json_response({"challenge": event.challenge})
            async with self._lock:
                headers = (event.key, event.event)
                if event.signature != "" and await asyncio.to_thread(
                    is_replayed, service.name, event.signature, headers
                ):
                    return problem_response(401, "replayed signature: already used with another id or event")
                answer = await asyncio.to_thread(take_event, self._ledger, service, event)
        except ValueError as error:
            return problem_response(400, str(error))
        except TooManyRuns:
            why = f"too many runs or events of {service.name} are queued"
            return problem_response(429, why, {"Retry-After": str(RETRY_SECONDS)})
        except NexusError as error:
            return problem_response(400 if error.kind == "usage" else 503, error.message)
        if "ignored" not in answer:
            return json_response(answer, 202)
        if not event.key or (service, event) not in (row[1:] for row in self._early):
            self._early = [*self._early, (local_now(), service, event)][-MAX_EARLY:]
        return json_response(answer)

    async def look(self, ledger: Ledger) -> float | None:
        """Resume the runs that wait for an event which came a moment before they began to. Return when the next queued
        run begins that waits for further events."""
        since = local_now() - timedelta(seconds=EARLY_SECONDS)
        self._early = [row for row in self._early if row[0] > since]
        for came, service, event in list(self._early):
            async with self._lock:
                if (await asyncio.to_thread(resume_waiting, ledger, service, event, format_utc(came)))[0]:
                    self._early.remove((came, service, event))
        return ledger.runs.next_wake()


def _refuse(service: Service, request: web.Request, body: bytes) -> str:
    """Return the reason to refuse a request to a service, "" if its sender has signed it."""
    return refuse_unsigned(service.sender, service.token_header, service.token, request.headers, body, time.time())


def _read_event(service: Service, request: web.Request, body: bytes, media_type: str) -> ServiceEvent:
    """Parse the event of a request. Blocks; raise `ValueError` or `NexusError` for an invalid one."""
    content = form_payload(body) if service.sender and media_type == FORM else body
    if isinstance(content, dict):
        payload: Any = content
    else:
        payload = parse_payload(content, "application/json" if content is not body else media_type)
    event = read_event(service.sender, request.headers, payload)
    refuse_bad_key(event.key)
    return event


async def _read_body(request: web.Request) -> bytes:
    """Return the body; raise the error answer for one that is too large or too slow."""
    if (request.content_length or 0) > MAX_PAYLOAD:
        raise web.HTTPRequestEntityTooLarge(MAX_PAYLOAD, request.content_length or 0)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > MAX_PAYLOAD:
                    raise web.HTTPRequestEntityTooLarge(MAX_PAYLOAD, len(body))
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    return bytes(body)


def json_response(value: Any, status: int = 200) -> web.Response:
    # An unpaired surrogate can only be sent as an escape; an id is returned unchanged.
    text = json_text(value, escaped=False, dense=True).encode("utf-8", "backslashreplace")
    headers = {"Cache-Control": "no-store"}
    return web.Response(status=status, body=text, content_type="application/json", headers=headers)


def problem_response(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return the refusal of a request as an answer."""
    text = json_text({"error": why}, escaped=True)
    return web.Response(status=status, text=text + "\n", content_type="application/json", headers=headers)
