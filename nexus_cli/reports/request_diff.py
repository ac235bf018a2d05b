"""Compare a request with the one before it: sections, entries, tools, and the cause of a new epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonDict, JsonObject, ReportOfSession
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger, pick_request
from nexus_cli.reports.request_view import RequestView, describe_items, sent_view
from nexus_cli.reports.text.blocks import NO_CELLS, Blocks, TitledTable
from nexus_cli.reports.text.lines import number

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
