"""`wait_for`: wait for an external event: a short time within the call; otherwise the turn ends, and the run continues
at the event.

`nexus_cli.runs` checks for what a run waits for.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from nexus_cli.config.load_settings import own_settings
from nexus_cli.core.duration import A_DURATION, format_duration, parse_duration
from nexus_cli.core.errors import NexusError
from nexus_cli.core.field_conditions import is_condition
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.local_time import ZONE_EXAMPLES, parse_time
from nexus_cli.core.message import ToolResult
from nexus_cli.core.run import Wait
from nexus_cli.core.services import Jobs, Waits
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.files import ToolError, decided_path, describe_problem
from nexus_cli.tools.listeners import is_own_address
from nexus_cli.tools.wait_conditions import (
    APPEARS,
    CHANGES,
    DISAPPEARS,
    POLLED,
    check_url,
    describe_event,
    describe_process,
    file_state,
    glob_states,
    host_headers,
    is_glob,
    is_kernel_thread,
    is_port,
    look,
    owner_of,
    this_machine,
)

EVENTS = (CHANGES, APPEARS, DISAPPEARS)
LONGEST_WHY = 300
"""Most characters of `Wait.why`; the value of the wait is never cut."""
MAX_SECONDS_IN_CALL = 600.0
"""Most seconds of a wait within the call, which leaves nothing and ends no job."""
FOR_JOB = 120.0
"""Seconds that a call waits for an address of a job, without a limit of its own."""
_STEP, _FAR_STEP = 0.25, POLLED["url"][0]
"""Seconds between two looks, and at a server that is not ours."""
CONDITIONS = ("file", "process", "time", "url", "service")
ENDS_WITH = "processes of a command end when it ends; to wait for a background command, use its job id"


@dataclass(frozen=True, slots=True)
class WaitForArguments:
    """The arguments of `wait_for`: one of `CONDITIONS`, and what belongs to it."""

    file: str | None = None
    event: str = CHANGES
    process: str | None = None
    time: str | None = None
    url: str | None = None
    status: str = "200"
    service: str | None = None
    match: tuple[str, ...] = ()
    timeout: str | None = None


async def run(arguments: WaitForArguments, context: ToolContext) -> ToolResult:
    """Let the run wait, or return at once if the condition already holds."""
    try:
        return await _run(arguments, context)
    except (ToolError, NexusError) as error:  # a NexusError: the settings cannot be read
        return ToolResult(error=error.message if isinstance(error, NexusError) else str(error), ran=False)


async def _run(arguments: WaitForArguments, context: ToolContext) -> ToolResult:
    conditions = [name for name in CONDITIONS if getattr(arguments, name) is not None]
    seconds = _read_timeout(arguments)
    jobs: Jobs | None = context.services.get(Jobs)
    process_id = "0" if arguments.process is None else arguments.process
    if (
        not process_id.isdigit() and len(conditions) == 1
    ):  # a job, which ends with this process: no other could wait for it
        if jobs is None:
            raise ToolError(f"there is no job {process_id[:40]!r}")
        return await jobs.wait(process_id, seconds)
    waits: Waits | None = context.services.get(Waits)
    if len(conditions) != 1:
        raise ToolError(f"name exactly one of {', '.join(CONDITIONS)}")
    if waits is None:
        raise ToolError("waiting is not available here")
    now = waits.now()
    wait = await asyncio.to_thread(_make_wait, arguments, context, now)
    if wait.until is not None and wait.until <= now:
        return ToolResult("no need to wait: that time has passed")
    wait = replace(wait, why=wait.why if len(wait.why) <= LONGEST_WHY else f"{wait.why[:LONGEST_WHY]}...")
    until = wait.until
    if seconds is not None:
        until = min(now + seconds, until or now + seconds)
    address = str(wait.value.get("url", ""))
    is_own = jobs is not None and bool(address) and jobs.owns(address)
    if is_own and until is None:
        until = now + FOR_JOB
    is_here = until is not None and wait.kind != "service" and (is_own or until - now <= MAX_SECONDS_IN_CALL)
    is_local = bool(address) and is_own_address(urlsplit(address).hostname or "")
    # What was granted as an address of a job is no other one's, also if the last job has just ended.
    may_reach = jobs is None or not is_local or context.may_reach(address) is True
    if not is_own and not may_reach:
        raise ToolError(f"{address}: no running job listens at this address")

    async def look_once() -> JsonObject | None:
        connect = await jobs.connect_to(address) if jobs is not None and is_own else None
        if connect is None and not may_reach:
            return None
        return await asyncio.to_thread(look, wait.kind, wait.value, connect)

    try:
        if (came := await look_once()) is not None:
            return ToolResult(f"no need to wait: {describe_event(wait.kind, came)}")
        if is_here and until is not None:
            step = _FAR_STEP if address and not is_own else _STEP
            return await _wait_here(replace(wait, until=until), until - now, step, look_once)
    except NexusError as error:  # the last job has ended
        return ToolResult(f"[the wait ended early: {error.message}. It waited for: {wait.why}]")
    if why := waits.refusal():
        raise ToolError(why)
    return _begin(replace(wait, until=until), now)


async def _wait_here(
    wait: Wait, seconds: float, step: float, look_once: Callable[[], Awaitable[JsonObject | None]]
) -> ToolResult:
    """Wait within the call."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (remaining := began + seconds - loop.time()) > 0:
        await asyncio.sleep(min(step, remaining))
        if (came := await look_once()) is not None:
            return ToolResult(f"{describe_event(wait.kind, came)}, after {format_duration(loop.time() - began)}")
    waited = format_duration(seconds)
    came_by_time = wait.kind == "time" and wait.value["at"] == wait.until
    return ToolResult(f"waited {waited}" if came_by_time else f"[not yet, after {waited}: {wait.why}]")


def _read_timeout(arguments: WaitForArguments) -> float | None:
    """Return the time limit in seconds, None without one. A number alone is seconds, as in `bash`."""
    if arguments.timeout is None:
        return None
    text = arguments.timeout.strip()
    if (seconds := parse_duration(f"{text} s" if text.replace(".", "", 1).isdecimal() else text)) is None:
        raise ToolError(f"timeout {arguments.timeout[:80]!r} is not {A_DURATION}")
    return seconds


def _begin(wait: Wait, now: float) -> ToolResult:
    limit = f", at most {format_duration(wait.until - now)}" if wait.until is not None else ""
    return ToolResult(f"This run is now waiting: {wait.why}{limit}.", waits={"wait": to_json_value(wait)})


def _make_wait(arguments: WaitForArguments, context: ToolContext, now: float) -> Wait:
    """Make the wait of a call; raises `ToolError` for one that is invalid."""
    if (name := arguments.file) is not None:
        event = arguments.event
        if event not in EVENTS:
            raise ToolError(f"event {event[:80]!r} must be one of {', '.join(EVENTS)}")
        try:
            path = decided_path(name, context)
            before = glob_states(path) if is_glob(path) else file_state(path)
        except (OSError, ToolError) as error:
            raise ToolError(describe_problem(name, error, context)) from None
        value = {"path": str(path), "event": event, "before": before, "machine": this_machine()}
        return Wait("file", f"{name} {event}", value)
    if arguments.process is not None:
        return _wait_for_process(int(arguments.process))
    if arguments.url is not None:
        return _wait_for_url(arguments.url, arguments.status, list(arguments.match))
    if arguments.service is not None:
        return _wait_for_service(arguments.service, list(arguments.match))
    return _wait_for_time(arguments.time or "", now)


def _wait_for_process(pid: int) -> Wait:
    value = describe_process(pid)
    if value is None:
        raise ToolError(f"there is no process {pid} ({ENDS_WITH})")
    if owner_of(pid) != os.getuid():
        raise ToolError(f"process {pid} belongs to another user ({ENDS_WITH})")
    if pid == 1 or is_kernel_thread(pid):
        raise ToolError(f"process {pid} is a system process ({ENDS_WITH})")
    return Wait("process", f"process {pid} ends", value)


def _wait_for_url(url: str, status: str, match: list[str]) -> Wait:
    why = check_url(url)
    if not why and is_port(url) and match:
        why = "a port has no body to match"
    if not re.fullmatch(r"[1-5](\d\d|xx)", status):
        why = why or f"status {status[:20]!r} must be a number or a class such as 2xx"
    try:
        host_headers(url) if not why else None
    except NexusError as error:
        why = error.message
    if why:
        raise ToolError(f"url: {why}")
    if is_port(url):
        return Wait("url", f"{url} accepts connections", {"url": url})
    has = f" with {', '.join(match)}" if match else ""
    value = {"url": url, "status": int(status) if status.isdigit() else status, "match": match}
    return Wait("url", f"{url} answers {status}{has}", value)


def _wait_for_service(name: str, match: list[str]) -> Wait:
    services = own_settings().services
    if name not in services:
        known_services = (
            f"the services are {', '.join(sorted(services))}" if services else "the person's settings have no service"
        )
        raise ToolError(f"there is no service {name[:80]!r}; {known_services}")
    if wrong := [condition for condition in match if not is_condition(condition)]:
        raise ToolError(f"match {wrong[0][:80]!r} is not of the form FIELD=VALUE")
    has = f" with {', '.join(match)}" if match else ""
    return Wait("service", f"an event of {name}{has}", {"service": name, "match": match})


def _wait_for_time(text: str, now: float) -> Wait:
    seconds = parse_duration(text)
    try:
        until = now + seconds if seconds is not None else parse_time(text, now)
    except (ValueError, OverflowError, NexusError):
        raise ToolError(f"time {text[:80]!r} is neither {A_DURATION} nor a time. {ZONE_EXAMPLES}") from None
    moment = datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Wait("time", f"it is {moment}", {"time": moment, "at": until}, until)
