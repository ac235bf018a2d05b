"""`/transcript`, `/copy`; export: show or save the session or the last answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from nexus_cli.commands.arguments import read_source
from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Argument, Noun, Option, Report, Source, Verb
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.ledger import SessionInfo
from nexus_cli.reports.export import (
    CLAUDE,
    FORMATS,
    HTML,
    MARKDOWN,
    SUFFIXES,
    ExportReport,
    default_file_name,
    format_of_file,
    save_export,
    session_pieces,
)
from nexus_cli.reports.transcript import session_transcript

Raw = Annotated[bool, Option(None, "Do not redact secrets in HTML or Markdown.")]


async def show_transcript(context: CommandContext) -> Report[JsonObject]:
    """Show the whole session with full outputs.

    Opens your pager (`PAGER`, else less, where / searches) at the end of the session. Compacted messages are included.
    """
    return Report("transcript", await asyncio.to_thread(session_transcript, context.session))


def export_session(
    source: Source,
    key: Annotated[
        str,
        Argument("[SESSION]", "Session id or name; default: this folder's newest session."),
    ] = "",
    form: Annotated[
        str,
        Option(
            "|".join(FORMATS),
            "Markdown, JSON Lines, an HTML page, or a session file for Claude Code.",
            "--format",
            least=0,
        ),
    ] = "",
    markdown: Annotated[bool, Option(None, "Short for --format md.")] = False,
    jsonl: Annotated[bool, Option(None, "Short for --format jsonl.")] = False,
    html: Annotated[bool, Option(None, "An HTML page with the conversation and the context timeline.")] = False,
    raw: Raw = False,
    output: Annotated[
        str,
        Option(
            "FILE",
            "Write to this new file, or into this folder; default: stdout, in a session the working folder.",
            "--output -o",
            least=0,
        ),
    ] = "",
) -> Report[ExportReport]:
    """Export a whole session as Markdown, JSON Lines, an HTML page, or a session file for Claude Code.

    The page is a single self-contained file with the conversation and the tokens of each request by section. The page
    and Markdown redact secrets in text, but not in images. Without a format option, the suffix of FILE selects the
    format. See `nexus docs moving` for the session folder of Claude Code.
    """
    flags = {MARKDOWN: markdown, "jsonl": jsonl, HTML: html}
    forms = {form, *(name for name, is_set in flags.items() if is_set)} - {""}
    if len(forms) > 1:
        raise NexusError("usage", "wrong usage", f"several formats: {', '.join(sorted(forms))}", "Use one of them")
    return _write_export(source, key, next(iter(forms), ""), output or ("." if source.live else ""), raw=raw)


async def export_open_session(
    context: CommandContext,
    words: Annotated[str, Argument(f"[{'|'.join(FORMATS)}] [FILE]", "The format and the file.")] = "",
    raw: Raw = False,
) -> None:
    """Write the whole session to a file.

    The formats are md (Markdown), html (a page with the context timeline), jsonl (JSON Lines), and claude (a session
    that Claude Code can resume). md and html redact secrets. FILE is relative to the working folder. If FILE is missing
    or a folder, nexus chooses a name. Existing files are never overwritten: the new file gets a number. Without a
    format, the suffix of FILE selects it; a single word without a suffix is read as the format.
    """
    first, _, more = words.partition(" ")
    form, name = (first.casefold(), more.strip()) if first.casefold() in FORMATS else ("", words)
    if not form and _bare(name) and not os.path.isdir(context.session.folder / name):
        hint = f"To write a file with this name: /export md {name}"
        raise usage_error("export", words, f"must be one of {', '.join(FORMATS)}", hint)
    form, source = form or format_of_file(name), read_source(context)
    _check_raw(form, raw)
    info = source.ledger.session(context.session.id)
    await context.save(name, default_file_name(info, form), export_pieces(source, info, form, raw=raw))


def _check_raw(form: str, raw: bool) -> None:
    if raw and form not in (HTML, MARKDOWN):
        why = "applies only to HTML pages and Markdown"
        raise NexusError("usage", "--raw", why, "Choose the format html or md")


def export_pieces(source: Source, info: SessionInfo, form: str, *, raw: bool, escaped: bool = False) -> Iterator[str]:
    """Yield a session as text in one of `FORMATS`; `raw` keeps secrets, `escaped` limits JSON to ASCII."""
    ledger, record = source.ledger, source.live.state.record if source.live else None
    if record and record.session_id == info.id and not record.is_saving:
        from nexus_cli.ledger import Ledger  # noqa: PLC0415  (a ledger that failed: the session continues in memory)

        ledger, info = Ledger(record.db, None, []), record.session
    if form == HTML:
        from nexus_cli.reports.page.session_page import session_page  # noqa: PLC0415  (loads pygments)

        return session_page(ledger, info, source.settings(), raw=raw)
    pieces = session_pieces(ledger.log(info.id), info, form, escaped=escaped)
    if raw or form != MARKDOWN:
        return pieces
    from nexus_cli.core.redact_secrets import make_redactor  # noqa: PLC0415  (slow, and other forms need none)

    return map(make_redactor(), pieces)


def _write_export(source: Source, key: str, form: str, output: str, *, raw: bool) -> Report[ExportReport]:
    """Write session `key` ("": the open one, or the newest of this folder) to the new file `output`; without one return
    its text, in pieces unless it is for JSON."""
    form = form or format_of_file(output)
    if form not in FORMATS:
        raise NexusError("usage", f"--format {form}", f"must be one of {', '.join(FORMATS)}")
    _check_raw(form, raw)
    to_file = output not in ("", "-")
    try:
        info = source.ledger.session(source.find(key))
    except NexusError as error:
        if output or Path(key).suffix.casefold() not in (*SUFFIXES, ".md"):
            raise
        raise NexusError(error.kind, error.what, error.why, f"To write to a file: nexus export -o {key}") from error
    pieces = export_pieces(source, info, form, raw=raw, escaped=not (to_file or source.is_piped))
    if not to_file:
        text: Any = "".join(pieces) if source.is_json else pieces
        return Report("text", {"version": 1, "session": info.id, "format": form, "file": "", "text": text})
    path = source.folder() / os.path.expanduser(output)
    if os.path.isdir(path):
        path /= default_file_name(info, form)
    saved = save_export(pieces, path, beside=source.live is not None)
    expects = "; see `nexus docs moving` for the folder where Claude Code expects the file."
    note = f"written to {saved}{expects if form == CLAUDE and not source.live else ''}"
    return Report("", {"version": 1, "session": info.id, "format": form, "file": str(saved), "text": ""}, note=note)


def _bare(name: str) -> bool:
    """True if `name` may be meant as a format: one word that is neither a path nor a name with a suffix."""
    return bool(name) and not any(char in "./\\~" or char.isspace() for char in name)


async def copy_answer(
    context: CommandContext,
    number: Annotated[int | None, Argument("N", "The number of a code block, from 1.")] = None,
) -> None:
    """Copy the last answer, or its Nth code block.

    The text is copied to the clipboard.
    """
    answer = context.last_answer
    if not answer:
        raise usage_error("copy", "", "there is no answer yet")
    if number is None:
        context.say(await context.copy(answer))
        return
    from markdown_it import MarkdownIt  # noqa: PLC0415  (slow, and loaded by then)

    blocks = [token.content for token in MarkdownIt("commonmark").parse(answer) if token.type == "fence"]
    if number > len(blocks):
        why = f"the last answer has {plural(len(blocks), 'fenced code block') if blocks else 'no fenced code block'}"
        raise usage_error("copy", str(number), why)
    context.say(await context.copy(blocks[number - 1].removesuffix("\n")))


NOUN = Noun(
    "export",
    "sessions",
    (
        Verb(export_session, only="shell"),
        Verb(export_open_session, complete=FORMATS),
    ),
)
NOUNS = (
    Noun("transcript", "sessions", (Verb(show_transcript),)),
    Noun("copy", "run", (Verb(copy_answer, at_terminal=True),)),
)
