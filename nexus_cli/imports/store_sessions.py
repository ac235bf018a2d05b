"""Write sessions of other programs into the ledger, each in one transaction; a second time only what is new in them.

The epoch of such a session has the name of the other program's model, so that the first request begins one of ours.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import drop_marker, elide_text, name_first
from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.front_ends import CHAT
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.core.progress import track
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules
from nexus_cli.imports.claude_sessions import read_claude_session
from nexus_cli.imports.codex_sessions import read_codex_session
from nexus_cli.imports.foreign_session import ForeignSession, find_files
from nexus_cli.ledger import LaneLog, Ledger, TransactionLog, sessions
from nexus_cli.provider.model_table import encoding_of

READERS: Mapping[str, tuple[Callable[[Path], list[Path]], Callable[[Path], ForeignSession]]] = {
    "claude": (partial(find_files, ("projects/*/*.jsonl",)), read_claude_session),
    "codex": (
        partial(find_files, ("sessions/**/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl")),
        read_codex_session,
    ),
}
"""By program: what finds its session files below its folder, and what reads one."""
MAX_TOKENS = 25_000
"""Tokens of one message that go into the window; the rest is a drop."""
MAX_NAMED = 5
"""Most bad lines of a file that are named."""
PROVIDERS = {"claude": "anthropic", "codex": "openai"}


@dataclass
class SessionsImport:
    """The result of an import of sessions."""

    program: str
    new: int = 0
    grown: int = 0
    same: int = 0
    entries: int = 0
    """Number of entries written."""
    empty: int = 0
    """Number of files without a message."""
    problems: list[str] = field(default_factory=list)
    """One line for each session that is left as it is, and each file that cannot be read."""
    left_out: Counter[str] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)
    """Tokens that the other program used, by its model."""


def import_sessions(ledger: Ledger, program: str, home: Path, model: str, *, dry_run: bool = False) -> SessionsImport:
    """Import the sessions below `home`, oldest first; with `dry_run` write nothing.

    `model` continues them; "" is the one that they had. Raises `NexusError("ledger", ...)` if the ledger fails.
    """
    result = SessionsImport(program)
    memos = [
        _EarlierImport(*memo)
        for memo in sessions.list_memos(ledger.db, IMPORTED_SESSION)
        if memo[1].get("from") == program
    ]
    by_file = {str(memo.memo.get("file")): memo for memo in memos}
    moved = {str(memo.memo.get("id")): memo for memo in memos if not os.path.exists(str(memo.memo.get("file")))}
    find, read = READERS[program]
    for path in track(sorted(find(home), key=lambda path: _stamp(path)[1:])):
        earlier, stamp = by_file.get(str(path)), _stamp(path)
        if earlier and earlier.memo.get("stamp") == stamp:
            result.same += 1
            continue
        try:
            foreign = read(path)
        except OSError as error:
            result.problems.append(f"{path}: cannot be read ({error.strerror})")
            continue
        if stamp != _stamp(path):
            result.problems.append(f"{path}: changed during the import; import again to add its new messages")
        earlier = earlier or moved.get(foreign.id) or _EarlierImport("", {})
        _store(ledger, foreign, earlier, stamp, model, result, dry_run)
    return result


def _stamp(path: Path) -> list[int]:
    """Return size and modification time of a file; [] if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


@dataclass(frozen=True, slots=True)
class _EarlierImport:
    """The session that an earlier import made of the same file; "" and {} if there is none."""

    session: str
    memo: JsonObject


def _store(
    ledger: Ledger,
    foreign: ForeignSession,
    earlier: _EarlierImport,
    stamp: list[int],
    model: str,
    result: SessionsImport,
    dry: bool,
) -> None:
    """Write what is new in a session, and count it in `result`."""
    if bad := foreign.bad_lines:
        result.problems.append(f"{foreign.path}: {name_first(bad, MAX_NAMED)}")
    if not foreign.entries:
        result.empty += 1
        result.left_out += foreign.left_out
        return
    before = int(earlier.memo.get("entries", 0))
    if earlier.session:
        if len(foreign.entries) < before or foreign.digest(before) != earlier.memo.get("digest"):
            result.problems.append(
                f"{foreign.path}: imported messages have changed; session {earlier.session} was not updated"
            )
            return
        if len(foreign.entries) > before and ledger.session(earlier.session).entries != before:
            line = (
                f"{foreign.path}: new messages were not imported, because session {earlier.session} was continued here"
            )
            result.problems.append(line)
            return
        if not ledger.lock(earlier.session):
            result.problems.append(f"{foreign.path}: session {earlier.session} is open in another process")
            return
    result.left_out += foreign.left_out
    for name, usage in foreign.usage.items():
        result.usage[name] = result.usage.get(name, Usage()) + usage
    added = len(foreign.entries) - before
    result.new += not earlier.session
    result.grown += bool(earlier.session and added)
    result.same += bool(earlier.session and not added)
    result.entries += added
    if not dry:
        model_name = model or f"{PROVIDERS[foreign.program]}/{foreign.model}".rstrip("/")
        _write(ledger, foreign, earlier, stamp, model_name)
    if earlier.session:
        ledger.release(earlier.session)


def _write(ledger: Ledger, foreign: ForeignSession, earlier: _EarlierImport, stamp: list[int], model: str) -> None:
    counter = _counter(encoding_of(model))
    before = int(earlier.memo.get("entries", 0))
    fresh = [replace(imported, tokens=counter.count_message(imported.message)) for imported in foreign.entries[before:]]
    is_folder = os.path.isabs(foreign.folder) and "\0" not in foreign.folder
    folder = foreign.folder if is_folder else os.path.expanduser("~")
    project = ledger.project_of(Path(folder))
    with ledger.db.write():
        session = earlier.session
        if not session:
            at, name = foreign.entries[0].at, _find_free_name(ledger, foreign.name)
            info = sessions.create(
                ledger.db, folder=folder, project=project, model=model, recipe="chat", name=name, at=at, front=CHAT
            )
            sessions.open_main(ledger.db, info)
            session = info.id
        log = TransactionLog(ledger.db, session)
        if not earlier.session:
            log.begin_epoch(
                Epoch(0, None, IMPORTED_SESSION, f"{foreign.program}:{foreign.model}", "", (), _RULES, (), 0), ()
            )
        for entry in fresh:
            log.append(_shorten(log, entry, counter))
        for call in {call.id: call for call in foreign.open_calls()}.values():
            if not log.was_started(call.id):
                log.record_start(call.id, call.name)
        value = {
            "from": foreign.program,
            "id": foreign.id,
            "file": str(foreign.path),
            "stamp": stamp,
            "entries": len(foreign.entries),
            "digest": foreign.digest(len(foreign.entries)),
            "usage": {name: asdict(usage) for name, usage in foreign.usage.items()},
            "left_out": {**+foreign.left_out, "lines": len(foreign.bad_lines)},
        }
        if fresh:
            sessions.sort_behind_used(ledger.db, session)
        log.record_memo(Memo(IMPORTED_SESSION, utc_now(), len(foreign.entries), value))


def _find_free_name(ledger: Ledger, name: str) -> str:
    """Return `name`, or "" if another session is found by it."""
    try:
        return sessions.check_name(ledger.db, name)
    except NexusError:
        return ""


def _shorten(log: LaneLog, entry: Entry, counter: TiktokenCounter) -> Entry:
    """Return the entry with at most `MAX_TOKENS` of its text; the whole one is recorded as a drop."""
    if entry.tokens <= MAX_TOKENS:
        return entry
    text, name = entry.message.content, log.next_drop()
    cut = elide_text(text, MAX_TOKENS, counter.count, drop_marker(name))
    if cut.is_whole:
        return entry
    label = (
        f"result of {entry.actor.removeprefix('tool:')}" if entry.kind is Kind.TOOL else f"imported message {entry.id}"
    )
    cause = Cause.OUTPUT_CAP if entry.kind is Kind.TOOL else Cause.INPUT_CAP
    log.record_drop(Drop(name, label, cut.tokens, cause, entry.at, text=text))
    message = replace(entry.message, content=cut.text)
    return replace(entry, message=message, tokens=counter.count_message(message))


_RULES = WireRules().dumps()
_counter = cache(TiktokenCounter)
