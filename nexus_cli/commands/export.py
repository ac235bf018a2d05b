"""`/transcript`, `/copy`; export: show or save the session or the last answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

from nexus_cli.commands.command import CommandContext, usage_error
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import AmbiguousError, NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.option import Argument, Option
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
    session_pieces,
)
from nexus_cli.reports.transcript import session_transcript


async def show_transcript(context: CommandContext) -> Report[JsonObject]:
    """Show the whole session with full outputs.

    Opens your pager (`PAGER`, else less, where / searches) at the end of the session. Compacted messages are included.
    """
    return Report("transcript", await asyncio.to_thread(session_transcript, context.session))


def export_session(
    source: Source,
    words: Annotated[
        list[str] | None,
        Argument(
            f"[SESSION] [{'|'.join(FORMATS)}] [FILE]",
            "Session id or name (default: the open session, in a shell the newest of this folder); format; file.",
        ),
    ] = None,
    form: Annotated[
        str,
        Option("|".join(FORMATS), "The format.", "--format", least=0, is_repeated=True),
    ] = "",
    markdown: Annotated[bool, Option(None, "Short for --format md.", is_repeated=True)] = False,
    jsonl: Annotated[bool, Option(None, "Short for --format jsonl.", is_repeated=True)] = False,
    html: Annotated[bool, Option(None, "Short for --format html.", is_repeated=True)] = False,
    raw: Annotated[bool, Option(None, "Do not redact secrets in HTML or Markdown.")] = False,
    output: Annotated[
        str, Option("FILE", "The file; in a shell, default: stdout.", "--output -o", least=0, is_repeated=True)
    ] = "",
) -> Report[ExportReport]:
    """Write a whole session to a file, or print it.

    The formats are md (Markdown), html (a single self-contained page with the conversation and the tokens of each
    request by section), jsonl (JSON Lines), and claude (a session that Claude Code can resume; see `nexus docs moving`
    for its folder). md and html redact secrets in text, but not in images. Without a format, the suffix of FILE selects
    it. FILE is relative to the working folder; for a folder nexus chooses a name. Without FILE a shell prints the text,
    and a session writes to the working folder. No file is overwritten: in a session the new file gets a number.
    """
    key, named_form, file = _read_words(source, words or (), output)
    if output and file:
        raise UsageError("wrong usage", f"two files: {file}, {output}", "Use one of them")
    flags = {MARKDOWN: markdown, "jsonl": jsonl, HTML: html}
    output = output or file
    form = _choose_form({form, named_form, *(name for name, is_set in flags.items() if is_set)}, output, raw=raw)
    to_file = source.live is not None or output not in ("", "-")
    try:
        info = source.ledger.session(source.find(key))
    except NexusError as error:
        hint = f"To write to a file: nexus export -o {key}" if Path(key).suffix.casefold() in (*SUFFIXES, ".md") else ""
        hint = f"Name the session first: nexus export ID {key}" if key.partition(" ")[0].casefold() in FORMATS else hint
        if output or not hint:
            raise
        raise NexusError(error.kind, error.what, error.why, hint) from error
    pieces = export_pieces(source, info, form, raw=raw, escaped=not (to_file or source.is_piped))
    if not to_file:
        text: Any = "".join(pieces) if source.is_json else pieces
        return Report("text", {"version": 1, "session": info.id, "format": form, "file": "", "text": text})
    saved = source.save(output, default_file_name(info, form), pieces)
    expects = "; see `nexus docs moving` for the folder where Claude Code expects the file."
    note = "" if source.live else f"written to {saved}{expects if form == CLAUDE else ''}"
    value: ExportReport = {"version": 1, "session": info.id, "format": form, "file": saved or output, "text": ""}
    return Report("", value, note=note)


@wraps(export_session)
def export_named_session(source: Source, words: Sequence[str] | None = None, **options: Any) -> Report[ExportReport]:
    """Export a session; unlike in `export_session`, the first words name the session in an open session too."""
    if source.live and words:
        count = next((place for place, word in enumerate(words) if place and word.casefold() in FORMATS), len(words))
        words = [source.find(" ".join(words[:count])), *words[count:]]
    return export_session(source, list(words or ()), **options)


def _choose_form(forms: set[str], output: str, *, raw: bool) -> str:
    """Return the one format that was given, else that of the output's suffix; raise `UsageError`."""
    chosen_forms = sorted(forms - {""})
    if chosen_forms[1:]:
        raise UsageError("wrong usage", f"several formats: {', '.join(chosen_forms)}", "Use one of them")
    form = chosen_forms[0] if chosen_forms else format_of_file(output)
    if form not in FORMATS:
        raise UsageError(f"--format {form}", f"must be one of {', '.join(FORMATS)}")
    if raw and form not in (HTML, MARKDOWN):
        why = "applies only to HTML pages and Markdown"
        raise UsageError("--raw", why, "Choose the format html or md")
    return form


def _read_words(source: Source, words: Sequence[str], output: str) -> tuple[str, str, str]:
    """Return the session, the format and the file that words name, "" each without one. In a shell the first word is a
    session; in the open session other words than a format are a session, else a file unless `output` is one."""
    before = 0 if source.live else 1
    place = next((place for place, word in enumerate(words) if place >= before and word.casefold() in FORMATS), None)
    if place is not None:
        return " ".join(words[:place]), words[place].casefold(), " ".join(words[place + 1 :])
    text = " ".join(words)
    if not (text and source.live):
        return text, "", ""
    try:
        return source.find(text), "", ""
    except UsageError as error:
        if output or isinstance(error, AmbiguousError):
            raise
        if not _is_bare_word(text) or os.path.isdir(source.folder() / text):
            return "", "", text
        why = f"must be one of {', '.join(FORMATS)}, or a session"
        raise usage_error("export", text, why, f"To write a file with this name: /export md {text}") from error


def export_pieces(source: Source, info: SessionInfo, form: str, *, raw: bool, escaped: bool = False) -> Iterator[str]:
    """Yield a session as text in one of `FORMATS`; `raw` keeps secrets, `escaped` limits JSON to ASCII."""
    ledger, record = source.ledger, source.live.record if source.live else None
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


def _is_bare_word(name: str) -> bool:
    """True if `name` may be meant as a format or a session: one word, no path and no name with a suffix."""
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


EXPORT = Verb(export_session, authority=Authority.ACTS, complete=lambda source: FORMATS if source.live else ())
NOUN = Noun("export", "sessions", (EXPORT,))
NOUNS = (
    Noun("transcript", "sessions", (Verb(show_transcript),)),
    Noun("copy", "run", (Verb(copy_answer, at_terminal=True),)),
)
