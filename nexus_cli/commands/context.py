"""Show the parts of the next request of a session, or of one that was sent; compare that with the one before it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.option import Model, Option, Recipe
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger, pick_request
from nexus_cli.provider.choose_model import choose_model
from nexus_cli.reports.context import ContextReport, context_report, sent_request_report
from nexus_cli.reports.context_summary import context_summary
from nexus_cli.reports.request_view import RequestView, describe_items, sent_view
from nexus_cli.reports.text.blocks import NO_CELLS, Blocks, TitledTable
from nexus_cli.reports.text.lines import number
from nexus_cli.service_list import SERVICES
from nexus_cli.session.options import Options

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

_SIGNS = (("+", "added"), ("-", "removed"), ("~", "changed"))


class SeenSection(TypedDict):
    """A section in one of the requests."""

    form: str
    tokens: int
    sha256: str | None


class ToldSection(SeenSection):
    """An event section that was sent with a request."""

    id: str


class SectionDifference(ToldSection):
    """A section that only one of the requests had."""

    counted: int


class ChangedSection(TypedDict):
    """A section that differs."""

    id: str
    before: SeenSection
    after: SeenSection


class SectionDifferences(TypedDict):
    """Sections of the system layer that differ."""

    added: list[SectionDifference]
    removed: list[SectionDifference]
    changed: list[ChangedSection]


class EntryDifference(TypedDict):
    """An entry that only one of the requests had."""

    entry: int
    form: str
    what: str
    tokens: int


class EntryDifferences(TypedDict):
    """Entries that differ."""

    added: list[EntryDifference]
    removed: list[EntryDifference]


class ToolDifferences(TypedDict):
    """Tool schemas that differ."""

    added: list[str]
    removed: list[str]
    changed: list[str]


class DifferenceReport(ReportOfSession):
    """With `--diff`: the differences between a request and the one before it."""

    step: int
    before: int | None
    """The previous request."""
    model: dict[str, str | None]
    """`before`, `after`."""
    epoch: JsonDict
    """`before`, `after`, and the `cause` of a new one."""
    tokens: dict[str, int]
    sections: SectionDifferences
    told: list[ToldSection]
    """Event sections that were sent with the message."""
    tools: ToolDifferences
    entries: EntryDifferences


def build_context(
    source: Source,
    step: Annotated[int | None, Option("N", "Request N, from 1.", least=-MAX_INT, is_positional=True)] = None,
    model: Model = "",
    recipe: Recipe = "",
    difference: Annotated[
        bool, Option(None, "Compare request N (default: the newest) with the previous request.", "--diff")
    ] = False,
    whole: Annotated[bool, Option(None, "In a session: show every section, tool, drop and limit.", "--all")] = False,
) -> Report[Annotated[Any, ContextReport | DifferenceReport]]:
    """Show the content and token counts of the next request, without sending it; with --step, of request N.

    In a session, show a bar of its parts, the largest items, the drops and the next rewrite of the window.
    """
    is_sent = step is not None or difference
    if is_sent and recipe:
        why = "the recipe of a sent request cannot be changed"
        raise UsageError(f"--recipe {recipe}", why, "Omit --recipe, or omit --step and --diff")
    if difference:
        return Report("between", request_difference(source.ledger, source.session(), source.settings(), step))
    if step is not None:
        return Report("context", sent_request_report(source.ledger, source.session(), source.settings(), step))
    if source.live and not (model or recipe):
        return Report("context" if whole else "context_summary", context_summary(source.live))
    session, settings = _find_session(source), source.settings()
    options = prepare_options(source, settings, session, model)
    options = replace(options, resume=session, recipe=recipe or options.recipe, save=False, newest=False)
    return Report("context", context_report(options, settings, session or None, services=SERVICES))


def _find_session(source: Source) -> str:
    """Return the id of the session, "" for a new one: the folder has none, or none that has sent a request."""
    if source.live:
        return source.session() if source.ledger.log(source.session()).step() else ""
    newest = None if source.named else source.ledger.newest_session(str(source.folder()))
    return source.session() if source.named or newest else ""


def look_at_session(source: Source) -> Session:
    """Return the session that a shell command names, as it would be opened. Changes nothing."""
    from nexus_cli.session.draft import look_at  # noqa: PLC0415  (the engine; not for others)
    from nexus_cli.session.limits_record import NextLimits  # noqa: PLC0415

    session, settings = source.ledger.session(source.session()), source.settings()
    options = replace(prepare_options(source, settings, session.id, ""), resume=session.id, save=False, newest=False)
    recipe = NextLimits.load(source.ledger.log(session.id), session, options, settings).recipe
    return look_at(source.ledger, session, options, settings, recipe, SERVICES)


def prepare_options(source: Source, settings: Settings, session: str, model: str) -> Options:
    """Return the options with which `nexus` would begin or resume the session here."""
    try:
        chosen = choose_model(model, settings, resumes=bool(session), servers=tuple).model
    except NexusError as error:
        if error.what != "no model":
            raise
        chosen = ""
    if source.live:
        return replace(source.live.options, model=chosen)
    is_interactive = os.isatty(0)  # plain `nexus` would then be interactive
    front = "chat" if is_interactive else "ask"
    return Options(source.folder(), chosen, settings.effort, front=front, interactive=is_interactive)


def request_difference(ledger: Ledger, session: str, settings: Settings, step: int | None = None) -> DifferenceReport:
    """Return the difference of request `step` (default: the newest) from the one before; raise `UsageError` if the
    session or request does not exist."""
    info = ledger.find_session(session)
    rows = ledger.log(info.id).requests()
    if step is None and not rows:
        raise UsageError("--diff", f"session {info.id} has not sent a request yet", "Send a message first")
    number = len(rows) if step is None else step
    pick_request(rows, number)
    before = sent_view(ledger, info, settings, number - 1) if number > 1 else None
    return compare_requests(before, sent_view(ledger, info, settings, number))


def compare_requests(before: RequestView | None, after: RequestView) -> DifferenceReport:
    """Return the difference as JSON; without `before` everything of `after` is new."""
    assert after.row is not None and after.session is not None, "only sent requests can be compared"
    earlier, later = _entries(before), _entries(after)
    same = before is not None and before.request.epoch.id == after.request.epoch.id
    old, new = _sections(before), _sections(after)
    return {
        "version": 1,
        "session": after.session,
        "step": after.row.manifest.step,
        "before": before.row.manifest.step if before and before.row else None,
        "model": {"before": before.model if before else None, "after": after.model},
        "epoch": {
            "before": before.request.epoch.id if before else None,
            "after": after.request.epoch.id,
            "cause": None if same else after.request.epoch.cause,
        },
        "tokens": {
            "before": before.request.tokens if before else 0,
            "after": after.request.tokens,
        },
        "sections": {
            "added": [row for key, row in new.items() if key not in old],
            "removed": [row for key, row in old.items() if key not in new],
            "changed": [
                {"id": key, "before": _seen(old[key]), "after": _seen(row)}
                for key, row in new.items()
                if key in old and _text(old[key]) != _text(row)
            ],
        },
        "told": [{"id": row["id"], **_seen(row)} for row in after.request.told],
        "tools": _tools(before, after),
        "entries": {
            "added": _rows(after, (key for key in later if key not in earlier)),
            "removed": _rows(before, (key for key in earlier if key not in later)),
        },
    }


def _sections(view: RequestView | None) -> dict[str, SectionDifference]:
    """Return the sections of the system text by id. Event sections are reported apart: they stay where they were
    sent."""
    rows = [section for section in view.request.sections if section["layer"] == "system"] if view else []
    return {row["id"]: {"id": row["id"], **_seen(row), "counted": row["counted"]} for row in rows}


def _text(section: JsonObject) -> tuple[Any, ...]:
    """Return the key by which sections are compared. It has no tokens: these follow the provider's count and differ by
    request."""
    return section["form"], section["sha256"], section["counted"]


def _seen(section: JsonObject) -> SeenSection:
    return {"form": section["form"], "tokens": section["tokens"], "sha256": section["sha256"]}


def _key(item: WindowItem) -> tuple[int, str, str]:
    return item.entry, str(item.form), str(item.message.role)


def _entries(view: RequestView | None) -> dict[tuple[int, str, str], WindowItem]:
    return {_key(item): item for item in view.arranged} if view else {}


def _rows(view: RequestView | None, keys: Iterable[tuple[int, str, str]]) -> list[EntryDifference]:
    if view is None:
        return []
    wanted = set(keys)
    items = [item for item in view.arranged if _key(item) in wanted]
    return [
        {
            "entry": item.entry,
            "form": str(item.form),
            "what": what,
            "tokens": round(item.tokens * view.request.messages_scale),
        }
        for item, what in describe_items(items, view.arranged)
    ]


def _tools(before: RequestView | None, after: RequestView) -> ToolDifferences:
    earlier = {tool["function"]["name"]: canonical(tool) for tool in (before.request.epoch.tools if before else ())}
    later = {tool["function"]["name"]: canonical(tool) for tool in after.request.epoch.tools}
    return {
        "added": [name for name in later if name not in earlier],
        "removed": [name for name in earlier if name not in later],
        "changed": [name for name in later if name in earlier and earlier[name] != later[name]],
    }


def between_text(value: JsonObject) -> Blocks:
    """List the sections, entries and tools that were added, removed or changed, and the cause of a new epoch."""
    step, before = value["step"], value["before"]
    tokens, epoch, model = value["tokens"], value["epoch"], value["model"]
    change = tokens["after"] - tokens["before"]
    against = f"against request {before}" if before else "(the first of its session)"
    yield f"request {step} {against}: {number(tokens['after'])} tokens, {change:+,}"
    yield f"The window was rewritten: {epoch['cause']}." if epoch["cause"] else "The window continues the previous one."
    if before and model["before"] != model["after"]:
        yield f"The model changed from {model['before']} to {model['after']}."
    sections, entries, tools = value["sections"], value["entries"], value["tools"]
    section_columns = {"": "sign", "id": "id", "tokens": _describe_tokens, "form": _describe_form}
    entry_columns = {
        "": "sign",
        "entry": lambda entry: str(entry["entry"]),
        "tokens": "tokens",
        "form": "form",
        "what": "what",
    }
    named_tools = {kind: [{"name": name} for name in tools[kind]] for _, kind in _SIGNS}
    tables = [
        TitledTable("system sections", section_columns, _sign(sections)),
        TitledTable("event sections", section_columns, _sign({"added": value["told"]})),
        TitledTable("tools", {"": "sign", "name": "name", **NO_CELLS}, _sign(named_tools)),
        TitledTable("entries", entry_columns, _sign(entries)),
    ]
    yield from tables
    if not any(table.rows for table in tables):
        yield from ["", "Nothing differs."]


def _sign(differences: JsonObject) -> list[JsonDict]:
    """Return the added, removed and changed parts, each with its sign."""
    return [{"sign": sign, **row} for sign, kind in _SIGNS for row in differences.get(kind, ())]


def _describe_tokens(section: JsonObject) -> str:
    """Return the tokens of a section; of a changed one before and after."""
    seen = [section["before"], section["after"]] if "before" in section else [section]
    return " to ".join(number(part["tokens"]) for part in seen)


def _describe_form(section: JsonObject) -> str:
    forms = (str(section.get(time, section)["form"]) for time in ("before", "after"))
    return " to ".join(dict.fromkeys(forms))


NOUN = Noun(
    "context",
    "context",
    (Verb(build_context, of_session=True),),
    "Show the content of the next request.",
    aliases=("tokens",),
    is_first=True,
)
