"""`/rewind`: go back to before one of the person's messages, with files, conversation, or both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from nexus_cli.commands.arguments import SessionSource, read_log, show_report
from nexus_cli.commands.command import Choice, CommandContext, usage_error
from nexus_cli.commands.sessions import fork_to_edit, one_line_title
from nexus_cli.commands.undo import save_editor_texts
from nexus_cli.commands.verb import ActReport, Noun, Report, Verb, print_act, report_act
from nexus_cli.config.paths import places
from nexus_cli.core.clock import format_age, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.option import Argument, Option
from nexus_cli.core.shielded_work import wait_uncancelled
from nexus_cli.ledger import LaneLog
from nexus_cli.reports.conversation import Replay

if TYPE_CHECKING:
    from nexus_cli.reports.turn_changes import TurnCount
    from nexus_cli.undo.plan_references import MovedHead
    from nexus_cli.undo.undo_turn import UndoReport

BOTH, CONVERSATION, FILES = "both", "conversation", "files"
Rewound = Report[Annotated[Any, "undo.undo_turn.UndoReport"] | ActReport]
_SOFT = "git reset --soft "
SECONDS = 1.0
"""Seconds in which the lines of all turns are counted; older turns have the number of their files alone."""


@dataclass(frozen=True, slots=True)
class _Turn:
    number: int
    entry: int
    """The entry of its message."""
    text: str
    age: str
    count: TurnCount | None
    """Its changes; None if it changed no file and nexus was not killed in it."""

    @property
    def has_files(self) -> bool:
        return self.count is not None and self.count.in_force


async def rewind(
    context: CommandContext,
    number: Annotated[int | None, Option("N", "The number of the message.", "--turn", is_positional=True)] = None,
    part: Annotated[str, Argument(help="What to revert.", values=(BOTH, CONVERSATION, FILES))] = "",
) -> Rewound:
    """Return to a point before one of your messages.

    Restores files, the conversation, or both; without N, choose a turn from a list that shows its changes. Files are
    restored as with /undo. The conversation continues in a copy of the session that ends before message N, with the
    todo list, goals and notices of that time; the message returns to the input box. To go forward again, /resume the
    previous session and use /redo.
    """
    record, arguments = read_log(SessionSource(context)), f"{number or ''} {part}".strip()
    turns = await asyncio.to_thread(_list_turns, record, context.session.id)
    if not turns:
        raise usage_error("rewind", arguments, "you have not sent a message in this session yet")
    if number is None:
        chosen = await context.choose("Rewind to before which message?", _choices(turns))
        if chosen is None:
            return print_act(f"Nothing was changed. /rewind {NOUN.verbs[0].usage} skips the list.")
        number = int(chosen)
    turn = next((candidate for candidate in turns if candidate.number == number), None)
    if turn is None:
        raise usage_error("rewind", arguments, f"there is no such turn; the newest is {turns[0].number}")
    part = part or await _choose_part(context, turn, [candidate for candidate in turns if candidate.number >= number])
    if not part:
        return report_act("")
    context.session.refuse_to_leave()
    if part != FILES:
        context.session.refuse_while_busy()
    return await _rewind_to(context, turn, part)


def _list_turns(record: LaneLog, session: str) -> list[_Turn]:
    """Return the turns of the session, newest first."""
    from nexus_cli.reports.turn_changes import count_turns  # noqa: PLC0415  (imports the undo)

    counts, now, number = count_turns(places().data, session, SECONDS), local_now(), record.count_turns()
    turns = []
    for entry, text in Replay(record).messages():
        turns.append(_Turn(number, entry.id, text, format_age(entry.at, now), counts.get(number)))
        number -= 1
    return turns


def _choices(turns: Sequence[_Turn]) -> list[Choice]:
    """Return the turns to choose from: number and message; changes and age in columns."""
    width = len(str(turns[0].number)) + 1
    rows = [(_describe(turn), turn.age) for turn in turns]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        Choice(
            str(turn.number),
            f"{f'#{turn.number}':>{width}}  {one_line_title(turn.text)}",
            f"{row[0]:<{sizes[0]}}  {row[1]:>{sizes[1]}}",
        )
        for turn, row in zip(turns, rows, strict=True)
    ]


def _describe(turn: _Turn) -> str:
    return turn.count.text if turn.count else ""


async def _choose_part(context: CommandContext, first: _Turn, turns: Sequence[_Turn]) -> str:
    """Let the person choose what goes back, "" for nothing; if `turns` changed no file it is the conversation."""
    title = f"Rewind to before message {first.number}: what do you want to revert?"
    changed = [turn for turn in turns if turn.has_files]
    if not changed:
        if not any(turn.count and turn.count.was_killed and not turn.count.files for turn in turns):
            return CONVERSATION
        why = "nexus was killed during a turn; unrecorded changes are kept"
        return await context.choose(title, [Choice(CONVERSATION, "conversation only", why)]) or ""
    which = f"files of {len(changed)} turns" if changed[1:] else _describe(changed[0])
    choices = [
        Choice(BOTH, "files and conversation", which),
        Choice(CONVERSATION, "conversation only", "files are not changed"),
        Choice(FILES, "files only", "like /undo for each turn"),
    ]
    return await context.choose(title, choices) or ""


async def _rewind_to(context: CommandContext, turn: _Turn, part: str) -> Rewound:
    undo_reports: list[UndoReport] = []
    if part != CONVERSATION:
        stop = threading.Event()
        try:
            await _undo_turns(context, turn.number, undo_reports, stop)
        except NexusError:
            if undo_reports:
                show_report(context, Report("undo", _merge(undo_reports, undo_reports[-1]["turn"] or turn.number)))
            raise
        stopped = f"Stopped. To continue: /rewind {turn.number} {part}" if stop.is_set() else ""
        report: Report[Any] = Report("undo", _merge(undo_reports, turn.number), note=stopped)
        if stopped or part == FILES:
            return report
        show_report(context, report)
    kept_paths = [kept_path["path"] for report in undo_reports for kept_path in report["kept"]]
    before = await fork_to_edit(context, turn.entry, turn.text, kept_paths)
    redo = f", then /redo {len(undo_reports)} times" if undo_reports[1:] else ", then /redo" if undo_reports else ""
    line = f"Rewound to before message {turn.number}. To return: /resume {before}{redo}"
    return print_act(line, context.session.id)


async def _undo_turns(
    context: CommandContext, first: int, undo_reports: list[UndoReport], stop: threading.Event
) -> None:
    """Undo the turns from `first` on, and add their reports to `undo_reports`. If the command is stopped, it ends after
    the turn that is being undone, and sets `stop`."""
    from nexus_cli.undo.undo_files import rewind_files, undo_request  # noqa: PLC0415

    source, loop = SessionSource(context), asyncio.get_running_loop()
    record = read_log(source)
    request = undo_request(record, context.session.folder)

    def say(line: str) -> None:
        loop.call_soon_threadsafe(source.say, line)

    def rewind() -> None:
        with save_editor_texts(context.session):
            for report in rewind_files(record, request, first, say, stop.is_set):
                undo_reports.append(report)

    await context.busy("rewinding", wait_uncancelled(asyncio.to_thread(rewind), stop.set))


def _merge(reports: Sequence[UndoReport], first: int) -> JsonObject:
    """Return several undos, newest turn first, as one report."""
    state: dict[str, str] = {}
    for report in reports:
        state |= dict.fromkeys(report["restored"], "restored") | dict.fromkeys(report["removed"], "removed")
    moved = [report["head_moved"] for report in reports if report["head_moved"]]
    last: MovedHead | None = None
    if moved:
        commands = [head["command"] for head in moved]
        pairs = zip(commands, [*commands[1:], ""], strict=True)
        back = [line for line, earlier in pairs if not (line.startswith(_SOFT) and earlier.startswith(_SOFT))]
        last = {"before": moved[-1]["before"], "after": moved[0]["after"], "command": " && ".join(back)}
    return {
        "version": 1,
        "action": "undo",
        "turn": first,
        "newest_turn": max((report["turn"] or first for report in reports), default=first),
        "restored": sorted(path for path, outcome in state.items() if outcome == "restored"),
        "removed": sorted(path for path, outcome in state.items() if outcome == "removed"),
        "kept": [kept_path for report in reports for kept_path in report["kept"]],
        "references": [reference for report in reports for reference in report["references"]],
        "head_moved": last,
        "not_covered": list(reports[-1]["not_covered"]) if reports else [],
        "unfollowed": list(reports[-1]["unfollowed"]) if reports else [],
        "dry_run": False,
    }


NOUN = Noun(
    "rewind",
    "sessions",
    (Verb(rewind),),
    aliases=("checkpoint", "checkpoints"),
    is_idle=True,
)
