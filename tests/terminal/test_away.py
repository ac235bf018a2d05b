"""What ran while the person was away stands below the greeting, once."""

from __future__ import annotations

from contextlib import closing

from terminal.repl import Opens

from nexus_cli.ledger import Ledger

AT = "2026-02-18T15:06:55.000Z"


def test_what_ran_while_the_person_was_away_is_told_at_the_next_start_and_once(repl: Opens) -> None:
    first = repl(["hello"])
    assert "while you were away" not in first.text
    with closing(Ledger.open(first.place.nexus_home / "data" / "ledger.db")) as ledger:
        for _ in range(3):
            options = {"folder": str(first.place.folder)}
            key = ledger.runs.queue("plan", "Daily Report", {"type": "plan"}, options, AT)
            assert key is not None
            ledger.runs.finish(ledger.runs.get(key), "done", AT, report="All quiet.\x1b[31m")
    second = repl(at=first.place)
    told = 'while you were away: plan Daily Report ran 3 times; run-3: "All quiet.'
    second.wait_for(lambda terminal: told in " ".join(terminal.text.split()))
    third = repl(at=first.place)
    assert "while you were away" not in third.text
