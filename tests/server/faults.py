"""What each fault inside an answer does to its events. Faults before the status line are `server.answer`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator

from server.event import Event, Form, Hang, Order, Raw, Wait
from server.fault import Fault

PUT_IN = (b"\n\n", b"\0", b"\xff", b"data: ", b"event: error\n", b"{", b'"', b": comment\n\n", b"\r", b"[DONE]")
"""What a damage may put in."""
PACED = ("stall", "reset", "cut", "bad_json", "bad_utf8", "error_later")


def apply(events: Iterable[Event], fault: Fault | None, form: Form, frame: Callable[[Event], bytes]) -> Iterator[Order]:
    """The orders that an answer becomes under `fault`; without one, the events themselves."""
    if fault is not None and fault.kind == "damage":
        body = b"".join(frame(event) for event in events)
        yield from (Raw(piece) for piece in damaged(body, random.Random(fault.seed)))
        return
    if fault is None or fault.kind not in PACED:
        yield from _whole(events, fault, form)
        return
    passed, done = 0, False
    for event in events:
        if not done and _now(event, fault, passed):
            done = True
            yield from _strike(event, fault, form, frame)
            if fault.kind in ("reset", "cut", "error_later"):
                return
            if fault.kind == "bad_utf8":
                continue
        passed += event.part == "delta"
        yield event


def damaged(body: bytes, rng: random.Random) -> Iterator[bytes]:
    """`body` with one to three random damages, in pieces of random sizes."""
    made = bytearray(body)
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(made) + 1)
        end = min(len(made), start + rng.choice((1, 2, 7, 40, 400)))
        piece = bytes(made[start:end])
        flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in piece)
        made[start:end] = rng.choice((b"", piece * 2, piece[::-1], flipped, rng.choice(PUT_IN) + piece))
    while made:
        size = rng.choice((1, 5, 60, len(made)))
        yield bytes(made[:size])
        del made[:size]


def _now(event: Event, fault: Fault, passed: int) -> bool:
    """The fault strikes here: its deltas have passed, or there are no more."""
    return event.part in ("finish", "end") or (passed >= fault.after and (fault.after < 0 or event.part == "delta"))


def _whole(events: Iterable[Event], fault: Fault | None, form: Form) -> Iterator[Order]:
    kind = fault.kind if fault else ""
    if kind == "empty":
        return
    if fault is not None and kind == "error_first":
        yield form.error_event(fault.status or 500, fault.message, fault.code)
        return
    for event in events:
        if kind == "done_only" and event.part != "end":
            continue
        if kind == "no_done" and event.part == "end":
            continue
        if kind == "no_finish" and event.part == "finish":
            continue
        yield event


def _strike(event: Event, fault: Fault, form: Form, frame: Callable[[Event], bytes]) -> Iterator[Order]:
    """What stands before `event`, or in its place."""
    if fault.kind == "stall":
        yield Wait(fault.seconds)
    elif fault.kind in ("reset", "cut"):
        yield Hang(reset=fault.kind == "reset")
    elif fault.kind == "error_later":
        yield form.error_event(fault.status or 500, fault.message, fault.code)
    elif fault.kind == "bad_json":
        yield Event("frame", b'{"id": "broken", "choi', event.name)
    else:
        yield Raw(_broken(frame(event), event.text))


def _broken(frame: bytes, text: str) -> bytes:
    """`frame` with a byte that is no UTF-8 in front of its text, or in its middle where it has none."""
    inside = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    place = frame.rfind(inside) if inside else len(frame) // 2
    return frame[:place] + b"\xff" + frame[place:]
