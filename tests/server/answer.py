"""Answers one model request: measures it, refuses it or not, and writes the scripted step in its wire form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from server.connection import Connection, Gone
from server.event import Event, Form, Hang, Order, Raw, Reply, Wait
from server.fault import Fault
from server.faults import apply
from server.forms.anthropic import Anthropic
from server.forms.chat import Chat, packed
from server.forms.gemini import Gemini
from server.forms.ollama import Ollama
from server.forms.responses import Responses
from server.framing import FRAMINGS
from server.meter import Meter
from server.received import Received
from server.step import Step
from server.tokens import Tokens

FORMS: dict[str, Form] = {form.name: form for form in (Chat(), Anthropic(), Gemini(), Ollama(), Responses())}
KEEP_LENGTH = ("reset", "cut", "stall", "no_finish")
"""Faults under which an answer that is no stream still announces its length."""
RESET_AFTER = 0.02
"""Seconds for the client to read what was written, before a reset throws it away."""


@dataclass(frozen=True)
class Refusal:
    """The window that the server enforces."""

    above: int | None = None
    """Tokens by the server's own counter; None enforces nothing."""
    dialect: str = ""


async def answer(
    line: Connection, request: Received, choose: Callable[[], Step], meter: Meter, refusal: Refusal
) -> None:
    """Writes the answer; raises `Gone` when the connection is over, by the client or by the script.

    A request above the window is refused before a step is chosen, so it takes none.
    """
    form = FORMS[request.form]
    sizes = meter.sizes(request.content)
    size = sum(sizes)
    request.tokens = Tokens(input=size)
    if refusal.above is not None and size > refusal.above:
        await _overflow(line, request, form, refusal.above, refusal)
        return
    step = choose()
    fault = step.fault
    request.fault = fault.kind if fault else ""
    if step.delay:
        await line.wait(step.delay)
    if fault is not None and await _before_head(line, request, form, fault, refusal):
        return
    if step.numbered:
        step = replace(step, text=f"{step.text} ({request.number})")
    output, reasoning = meter.answer(step)
    counted = meter.request(request.content, sizes, request.form, request.model)
    request.tokens = replace(counted, output=output, reasoning=reasoning).with_changes(step.usage)
    await _play(line, request, step, form, _reply(request, refusal))


async def _before_head(line: Connection, request: Received, form: Form, fault: Fault, refusal: Refusal) -> bool:
    """Carries out a fault that comes before the status line; True when that was the answer."""
    if fault.kind == "close_before_head":
        line.hang_up(reset=False)
        raise Gone
    if fault.kind == "stall_before_head":
        await line.wait(fault.seconds)
        return False
    if fault.kind == "overflow":
        limit = request.tokens.input - 1 if refusal.above is None else refusal.above
        await _overflow(line, request, form, limit, refusal)
        return True
    if fault.kind in ("status", "quota"):
        await _refuse(line, request, form, fault)
        return True
    return False


async def _overflow(line: Connection, request: Received, form: Form, limit: int, refusal: Refusal) -> None:
    request.status, request.fault = 400, "overflow"
    body = form.overflow(request.tokens.input, limit, _reply(request, refusal))
    request.sent = await line.whole(400, body)


def _reply(request: Received, refusal: Refusal) -> Reply:
    options = request.body.get("stream_options")
    asked = request.form != "chat" or (isinstance(options, dict) and options.get("include_usage") is True)
    return Reply(request.number, request.model, request.tokens, asked, refusal.dialect)


async def _refuse(line: Connection, request: Received, form: Form, fault: Fault) -> None:
    code = fault.code or ("insufficient_quota" if fault.kind == "quota" else "")
    request.status = 429 if fault.kind == "quota" else fault.status or 500
    extra = {"Retry-After": fault.retry_after} if fault.retry_after else {}
    request.sent = await line.whole(request.status, form.error(request.status, fault.message, code), extra)


async def _play(line: Connection, request: Received, step: Step, form: Form, reply: Reply) -> None:
    events: Iterable[Event]
    framing = FRAMINGS[step.framing]
    length = 0
    if request.stream:
        kind, events, frame = form.content_type, form.events(step, reply), form.frame
        if framing.body == "length":
            length = _length(form.events(step, reply), step.fault, form)
    else:
        data = packed(form.whole(step, reply))
        half = len(data) // 2
        events = (Event("delta", data[:half]), Event("delta", data[half:]))
        kind, length, frame = "application/json", len(data), _unframed
        if step.framing == "chunked" and (step.fault is None or step.fault.kind in KEEP_LENGTH):
            framing = FRAMINGS["length"]
    request.status = 200
    await line.head(200, kind, framing, length)
    for order in apply(events, step.fault, form, frame):
        await _carry_out(line, request, step, frame, order)
    try:
        await line.end()
    except Gone:
        line.closed_by_client = False  # it had all that there was
        raise
    if framing.hang_up:
        line.hang_up(reset=False)
        raise Gone


def _unframed(event: Event) -> bytes:
    return packed(event.data)


async def _carry_out(
    line: Connection, request: Received, step: Step, frame: Callable[[Event], bytes], order: Order
) -> None:
    if isinstance(order, Wait):
        await line.wait(order.seconds)
        return
    if isinstance(order, Hang):
        if order.reset:
            await asyncio.sleep(RESET_AFTER)
        line.hang_up(reset=order.reset)
        raise Gone
    if step.pace and isinstance(order, Event) and order.part == "delta":
        await line.wait(step.pace)
    for piece in cuts(_bytes(order, frame), step.write):
        await line.body(piece)
        request.sent += len(piece)
        if step.write:
            await asyncio.sleep(0)


def _length(events: Iterable[Event], fault: Fault | None, form: Form) -> int:
    """The length that is announced: under a fault that ends the connection, that of the answer without it."""
    broken = fault is not None and fault.kind in ("reset", "cut", "damage")
    return sum(len(_bytes(order, form.frame)) for order in apply(events, None if broken else fault, form, form.frame))


def _bytes(order: Order, frame: Callable[[Event], bytes]) -> bytes:
    """What an order puts into the body."""
    if isinstance(order, Event):
        return frame(order)
    return order.data if isinstance(order, Raw) else b""


def cuts(data: bytes, write: int | str) -> Iterator[bytes]:
    """`data` as it is written: in pieces of so many bytes, or cut inside each character of several bytes."""
    if write == "utf8":
        start = 0
        for place in range(1, len(data)):
            if 0x80 <= data[place] < 0xC0 and data[place - 1] >= 0xC0:
                yield data[start:place]
                start = place
        yield data[start:]
    elif isinstance(write, int) and write > 0:
        yield from (data[start : start + write] for start in range(0, len(data), write))
    else:
        yield data
