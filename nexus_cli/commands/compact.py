"""`/compact` and `/uncompact`: replace older messages by a summary, and undo that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.command import CommandContext, run_act, usage_error
from nexus_cli.commands.pin import describe_pin
from nexus_cli.commands.verb import Act, ActReport, Noun, Report, Verb, print_act, report_act
from nexus_cli.core.elide import name_first
from nexus_cli.core.event import NOTHING_TO_SUMMARIZE, CompactionDone
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.option import Argument, Option
from nexus_cli.reports.text.blocks import Blocks, Paragraph, TitledTable
from nexus_cli.reports.text.lines import dollars, number, plural
from nexus_cli.session.acts.compaction import preview, uncompaction

SOURCES = {
    "window": "the current context",
    "transcript": "a transcript of these messages",
    "originals": "the original messages, not the earlier summary",
}
QUOTE_LABELS = {"whole": "word for word", "part": "in part", "no": "summarized only"}
MAX_NAMED, MAX_LISTED = 3, 12
"""Most messages named as staying among the summarized ones, and most of the person's messages shown."""
PLACES = {
    "window": "remains in place",
    "summary": "below the summary",
    "dropped": "does not fit; can be recalled",
}


def compaction_text(value: JsonObject) -> Blocks:
    """Describe the effect of `/compact` now."""
    if not value["possible"]:
        effect = "Nothing to compact" if value["why"] == NOTHING_TO_SUMMARIZE else "nexus might refuse a compaction"
        yield f"{effect}: {value['why']} ({number(value['before'])} tokens in use)."
        yield _pin_rows(value["pins"])
        return
    summary, goes = value["summary"], value["goes"]
    effect = f"A compaction would reduce {number(value['before'])} tokens to at most {number(value['after'])}"
    if value["after"] >= value["before"]:
        effect = f"A compaction might not free any of the {number(value['before'])} tokens"
    yield f"{effect} (budget: {number(value['budget'])}). Nothing was sent or changed."
    parts: list[JsonDict] = [{"part": "summarized", **goes}, {"part": "kept", **value["stays"]}]
    if record := value["record"]["most"]:
        kinds = "files, commands and goals (maximum)"
        parts.append({"part": "record", "tokens": record, "messages": "", "turns": "", "kinds": kinds})
    parts.append({"part": "summary", "tokens": summary["most"], "messages": 1, "turns": 0, "kinds": "(maximum)"})
    columns = {"part": "part", "tokens": "tokens", "messages": "messages", "turns": "turns", "includes": _list_kinds}
    yield TitledTable("after a compaction", columns, parts)
    yield Paragraph("Tokens are estimated.", "  ")
    source = SOURCES.get(summary["source"], summary["source"])
    how = f"{summary['model']} will write the summary from {source}: {summary['why']}."
    yield from ["", _list_summarized(goes), "", how]
    yield _list_user_messages(value["words"])
    yield _pin_rows(value["pins"])
    yield from _describe_cost(value["cost"])


def _list_kinds(part: JsonObject) -> str:
    return part.get("kinds") or ", ".join(f"{kind} {number(tokens)}" for kind, tokens in part["by_kind"].items())


def _list_summarized(goes: JsonObject) -> str:
    """List the messages to be summarized by number, the way to read them afterwards, and those among them that stay."""
    how = "the model can recall them" if goes["recall"] else "/drops prints them"
    text = f"The summary will replace messages {goes['first']} to {goes['last']}; {how}"
    inside = [str(entry) for entry in goes["without"]]
    if not inside:
        return f"{text}."
    return f"{text}. Kept: {name_first(inside, MAX_NAMED)} (your last request)."


def _list_user_messages(rows: Sequence[JsonObject]) -> TitledTable:
    """List the person's messages in the summarized part, each with its outcome."""
    newest = rows[-MAX_LISTED:]
    count_note = f", {len(newest)} of {len(rows)} shown" if len(rows) > len(newest) else ""
    columns = {"message": "entry", "kept as": lambda row: QUOTE_LABELS.get(row["kept"], ""), "text": "text"}
    return TitledTable(f"your messages{count_note}", columns, newest)


def _pin_rows(rows: Sequence[JsonObject]) -> TitledTable:
    columns = {
        "id": "id",
        "what": describe_pin,
        "tokens": "tokens",
        "where": lambda row: PLACES[row["where"]],
        "text": "text",
    }
    return TitledTable("pins", columns, rows)


def _describe_cost(cost: JsonObject) -> Blocks:
    rows = [{"what": "the summary", **cost["now"]}]
    for row in cost["next"]:
        label = "next request" if row["requests"] == 1 else f"next {row['requests']} requests"
        rows += [{"what": f"{label} {name} compaction", **row[name]} for name in ("without", "with")]
    if all(None not in (row["warm"], row["cold"]) for row in rows):
        columns = {
            "input of": "what",
            "warm": lambda row: dollars(row["warm"]),
            "cold": lambda row: dollars(row["cold"]),
        }
        yield TitledTable("cost", columns, rows)
    yield from ["", _describe_rewrite_cost(cost)]


def _describe_rewrite_cost(cost: JsonObject) -> str:
    """Describe the cost with the current cache and when it pays off, in one sentence."""
    state, cache_state = ("may still be warm", "warm") if cost["warm_now"] else ("is cold or unknown", "cold")
    rows, price = cost["next"][:2], cost["now"][cache_state]
    costs = [row[name][cache_state] for row in rows for name in ("with", "without")]
    if None in (price, *costs):
        return "Cost unknown: a model has no known price, or a subscription covers it."
    next_with, next_without, all_with, all_without = costs
    first = next_with - next_without
    later = (all_without - all_with + first) / (rows[1]["requests"] - 1)
    difference = f"{dollars(abs(first))} {'more' if first >= 0 else 'less'}"
    text = f"The cache {state}: the summary costs {dollars(price)}, the next request {difference}"
    text += f", each later request {dollars(abs(later))} {'less' if later >= 0 else 'more'}"
    if later <= 0:
        return f"{text}. A compaction does not pay for itself."
    number_of = max(1, 1 + math.ceil((price + first) / later))
    return f"{text}. A compaction pays for itself after {plural(number_of, 'request')}."


PREVIEW = "preview"
Compacted = Report[JsonObject | ActReport]


async def compact(
    context: CommandContext,
    instructions: Annotated[str, Argument("INSTRUCTIONS", "What the summary must keep.", is_text=True)] = "",
    is_preview: Annotated[
        bool, Option(None, "Show the effect and the cost without sending anything.", "--preview -preview -p")
    ] = False,
) -> Compacted:
    """Summarize older messages to free context.

    Your newest messages and a record of files and commands are kept; /drops lists the replaced messages. If the summary
    fails or is not smaller, nothing changes. /uncompact undoes a compaction.
    """
    if is_preview or instructions == PREVIEW:
        previews: list[JsonObject] = []
        await run_act(context, "previewing", preview(instructions if is_preview else "", previews.append))
        return Report("compaction", previews[0]) if previews else report_act("")
    option = instructions.partition(" ")[0]
    if option.startswith(("-", "\u2013", "\u2014")) and len(option) > 1:  # a dash alone is a list item
        raise usage_error("compact", option, "there is no such option", f"Use /compact --{PREVIEW}")

    compacted: list[str] = []

    async def work() -> None:
        events = await context.session.compact(instructions, context.feed)
        compacted.extend(context.session.id for event in events if isinstance(event, CompactionDone) and event.ok)

    await context.busy("compacting", work())
    return report_act("", *compacted)


async def uncompact(context: CommandContext) -> Act:
    """Undo the last compaction.

    Restores the replaced messages to the window and keeps everything since. Repeat to undo earlier compactions. The
    command fails if the messages no longer fit.
    """
    await run_act(context, "undoing", uncompaction())
    request = context.session.engine.next_request()  # of which the cache may still have the former window
    new = request.tokens - request.cached
    line = f"The next request hits the cache, except for about {new:,} tokens."
    if not request.cached:
        line = f"The next request misses the cache (about {new:,} tokens)."
    return print_act(line, context.session.id)


NOUNS = (
    Noun(
        "compact",
        "context",
        (Verb(compact),),
        aliases=("summarize", "compress"),
        is_first=True,
        is_idle=True,
    ),
    Noun("uncompact", "context", (Verb(uncompact),), is_idle=True),
)
