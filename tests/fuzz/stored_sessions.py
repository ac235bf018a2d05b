"""Check what a session has left: its commands work, its replay is identical, no accepted message is lost."""

from __future__ import annotations

import json
import re
from contextlib import closing

from program.nursery import run_born
from terminal.repl import Place

from nexus_cli.core.memo_kinds import WAITING_TEXTS
from nexus_cli.ledger import Ledger

PERSON = "\u258c"
"""How the screen begins a line of the person."""
QUEUED = r"(?:queued:|sending after this step:)"
KEPT = r"\u00b7 kept for when you resume:"
"""How it names a message that waits, while it runs and when it ends."""
NO_REQUEST = b"session has not sent a request yet"
"""What `nexus context` says of a session that ended before."""
READERS = ("replay", "context", "timeline", "usage", "drops", "cache", "why", "export --jsonl", "export --html")


def read_marks(lines: list[str], named: str) -> set[str]:
    """Return the marks of messages that a screen shows as accepted: behind `named`, or echoed and not stopped at once,
    which puts the text back into the box."""
    text = "\n".join(lines)
    found = set(re.findall(rf"^{named} (?![/!]).*?\b(mark\d+)", text, re.MULTILINE))
    for echo, after in re.findall(rf"^((?:{PERSON}.*\n)+)\n*(.*)", text, re.MULTILINE):
        if echo[1:].strip()[:1] not in ("/", "!") and not after.startswith("\u00b7 stopped"):
            found.update(re.findall(r"\bmark\d+", echo))
    return found


def read_queues(here: Place) -> bytes:
    """Return what all sessions have stored of messages that were not sent yet."""
    with closing(Ledger.open(here.nexus_home / "data/ledger.db")) as ledger:
        memos = [ledger.log(one.id).memos(WAITING_TEXTS)[-1:] for one in ledger.sessions(limit=1000)]
    return json.dumps([[one.value for one in newest] for newest in memos]).encode()


def check(here: Place, marks: set[str]) -> list[str]:
    """Return the faults of what is stored: commands that fail, and messages that are in no session."""

    def run(*words: str) -> tuple[int, bytes, bytes]:
        done = run_born(list(words), cwd=here.folder, env=here.environment)
        return done.returncode, done.stdout, done.stderr

    status, printed, told = run("sessions", "list", "--all", "--json")
    faults = [f"sessions list: exit {status}: {told.decode()}"] if status or b"Traceback" in told else []
    stored = b""
    for one in json.loads(printed)["sessions"] if not faults else []:
        for words in READERS:
            session = [one["id"]] if words.startswith("export") else ["--session", one["id"]]
            status, printed, told = run(*words.split(), *session)
            if (status and NO_REQUEST not in told) or b"Traceback" in told:
                faults.append(f"nexus {words} of {one['id']}: exit {status}: {(printed + told).decode()[-1500:]}")
            stored += printed
    stored += read_queues(here)
    log = here.nexus_home / "log/nexus.log"
    if log.exists() and "Traceback" in log.read_text(errors="replace"):
        faults.append(f"the log has a traceback\n{log.read_text(errors='replace')[-6000:]}")
    lost = sorted(mark for mark in marks if mark.encode() not in stored)
    return faults + ([f"accepted and not in the ledger: {lost}"] if lost else [])
