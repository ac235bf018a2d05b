"""A ledger with requests that were made at known times: a session is one epoch of one model."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.core.entry import Epoch, Manifest
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules
from nexus_cli.ledger import Ledger


def spend(ledger: Ledger, project: Path | str, model: str, *requests: tuple[str, Usage | None]) -> str:
    """Record a session with requests at these times (None: never answered) and return its id."""
    first = requests[0][0]
    made = ledger.create_session(folder=str(project), project=str(project), model=model, recipe="ask", at=first)
    log = ledger.log(made.id)
    log.begin_epoch(Epoch(0, None, "start", model, "You help.", (), WireRules().dumps(), (), 0), ())
    for step, (at, usage) in enumerate(requests, 1):
        log.record_request(Manifest(step, 0, 0, {"model": model}, "00" * 32, 100, at), (), ())
        if usage is not None:
            log.record_reply(None, step, usage, "stop", True)
    return made.id
