"""CPU of `nexus context`, which resumes a session without its model: beside nothing, and as history grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.long_session import VISIBLE, write
from benchmarks.measure import NEXUS, PASS, ChildFailedError, Scene, in_turns, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, ask, stage, undisturbed

from nexus_cli.ledger import Ledger

SHORT, LONG = 100, 100_000


def context(place: Scene, session: str) -> float:
    """Seconds of CPU of the report of `session`; `ChildFailedError` when it shows another window."""
    child = place.child((NEXUS, "context", "--session", session, "--json"))
    report = json.loads(child.printed)
    if report["session"] != session or report["history"]["entries"] < VISIBLE:
        raise ChildFailedError(f"the report is of another window: {report['session']}, {report['history']}")
    return child.cpu


def rows(times: int) -> Iterator[Row]:
    """The report of 1,000 visible entries; then a report and a resumed one-shot with little and with much hidden."""
    with stage() as here:
        place = here.scene
        ledger = Ledger.open(Path(place.environment["NEXUS_HOME"]) / "data" / "ledger.db")
        visible = write(ledger, place.folder, MODEL, 0, 1000)
        short = write(ledger, place.folder, MODEL, SHORT // 40 * 40)
        long = write(ledger, place.folder, MODEL, LONG)
        ledger.close()
        value, base = in_turns(times, lambda: context(place, visible), lambda: place.run(PASS))
        yield Row("nexus context, 1,000 entries", milliseconds(value), "ms", milliseconds(base), "python -c pass", 20)
        value, base = in_turns(times, lambda: context(place, long), lambda: context(place, short))
        against = f"{SHORT} entries"
        yield Row(f"nexus context, {LONG:,} entries", milliseconds(value), "ms", milliseconds(base), against, 1.5)

        def resumed(session: str) -> float:
            return here.watch(ask("-r", session, "go on"), lambda number: "done", undisturbed).cpu[0]

        for session in (long, short):  # a template is proven for the pairs of messages in the first two requests
            resumed(session)
        value, base = in_turns(times, lambda: resumed(long), lambda: resumed(short))
        what = f"nexus ask -r, start to request, {LONG:,} entries"
        yield Row(what, milliseconds(value), "ms", milliseconds(base), against, 1.5)


BENCHMARK = Benchmark("a session is resumed", rows)
