"""`/transcript`, `/export`, `/copy` and `/diff`: show or save the session, the last answer or the changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping

from nexus_cli.commands.arguments import require_ledger, require_record
from nexus_cli.commands.command import Command, CommandContext, always, usage_error
from nexus_cli.commands.undo import parse_turn
from nexus_cli.config.settings import Settings
from nexus_cli.core.elide import plural
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.reports.diff import folder_diff
from nexus_cli.reports.export import FORMATS, HTML, default_file_name, format_of_file, session_pieces
from nexus_cli.reports.transcript import session_transcript


async def show_transcript(context: CommandContext, rest: str) -> None:
    """Show the whole session with full outputs.

    Opens your pager (`PAGER`, else less, where / searches) at the end. Compacted messages are included.
    """
    context.show("transcript", await asyncio.to_thread(session_transcript, context.session))


async def export_session(context: CommandContext, rest: str) -> None:
    """Write the whole session to a file.

    md is Markdown for reading, html a page with the context timeline and without secrets, jsonl is JSON Lines for
    programs, claude is what Claude Code can resume. FILE is relative to the working folder; without it, or if it is a
    folder, a name is chosen. Existing files are never overwritten: the new one gets a number. Without a format the
    suffix of FILE decides; a single word without a suffix is taken for a format.
    """
    first, _, more = rest.partition(" ")
    form, name = (first.casefold(), more.strip()) if first.casefold() in FORMATS else ("", rest)
    if not form and _bare(name) and not os.path.isdir(context.session.folder / name):
        raise usage_error(
            "export", rest, f"formats are {', '.join(FORMATS)}", f"For a file of this name: /export md {name}"
        )
    form = form or format_of_file(name)
    ledger = require_ledger(context)
    info = ledger.session(context.session.id)
    subjects = {tool.name: tool.subject for tool in context.session.tools()}
    pieces = export_pieces(ledger, info, form, lambda: subjects, lambda: context.settings)
    await context.save(name, default_file_name(info, form), pieces)


def export_pieces(
    ledger: Ledger,
    info: SessionInfo,
    form: str,
    subjects: Callable[[], Mapping[str, str]],
    settings: Callable[[], Settings],
    *,
    raw: bool = False,
    escaped: bool = False,
) -> Iterator[str]:
    """Yield a session of `ledger` as text in one of `FORMATS`.

    For a page: the names of the tools' main arguments, settings for the models' facts; `raw` keeps secrets. `escaped`
    limits JSON to ASCII, for a terminal.
    """
    if form == HTML:
        from nexus_cli.reports.page.session_page import session_page  # noqa: PLC0415  (loads pygments)

        return session_page(ledger, info, subjects(), settings(), raw=raw)
    return session_pieces(ledger.log(info.id), info, form, escaped=escaped)


def _bare(name: str) -> bool:
    """True if `name` may be meant as a format: one word that is neither a path nor a name with a suffix."""
    return bool(name) and not any(char in "./\\~" or char.isspace() for char in name)


async def copy_answer(context: CommandContext, rest: str) -> None:
    """Copy the last answer, or its Nth code block.

    It is copied to the clipboard; code blocks are counted from 1.
    """
    answer = context.last_answer
    if not answer:
        raise usage_error("copy", rest, "there is no answer yet")
    if not rest:
        context.say(await context.copy(answer))
        return
    if not (rest.isascii() and rest.isdigit() and 0 < len(rest) < 6):
        raise usage_error("copy", rest, "expected the number of a code block")
    from markdown_it import MarkdownIt  # noqa: PLC0415  (slow, and loaded by then)

    blocks = [token.content for token in MarkdownIt("commonmark").parse(answer) if token.type == "fence"]
    if not 1 <= int(rest) <= len(blocks):
        why = f"the last answer has {plural(len(blocks), 'code block') if blocks else 'no code block'}"
        raise usage_error("copy", rest, why)
    context.say(await context.copy(blocks[int(rest) - 1].removesuffix("\n")))


async def show_diff(context: CommandContext, rest: str) -> None:
    """Show changes since the last commit, or of a turn.

    Shows the diff of the working folder, including untracked files. Without git, lists the files that this session
    changed. N is the number of a message: shows what its turn changed, of PATH alone if given.
    """
    session = context.session
    if rest:
        from nexus_cli.reports.undo import turn_diff  # noqa: PLC0415
        from nexus_cli.session.undo_files import undo_request  # noqa: PLC0415

        turn, paths = parse_turn(rest)
        request = undo_request(require_record(context), session.folder, turn=turn, paths=paths)
        value = await asyncio.to_thread(turn_diff, request)
        if not value["text"] and not value["unread"]:
            raise usage_error("diff", rest, "no turn changed that", "/diff N [PATH] shows what turn N changed")
        context.show("diff", value)
        return
    context.show("diff", await folder_diff(session.folder, session.ledger, session.id))


COMMANDS = (
    Command("transcript", "session", show_transcript, served=always),
    Command(
        "export",
        "session",
        export_session,
        "[md|jsonl|html|claude] [FILE]",
        complete=lambda context: FORMATS,
        served=always,
    ),
    Command("copy", "work", copy_answer, "[N]", at_terminal=True),
    Command("diff", "work", show_diff, "[N] [PATH]", is_first=True, served=always),
)
