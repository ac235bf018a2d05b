"""Text of a preview of `/compact`: what a compaction would summarize, keep and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nexus_cli.core.elide import name_first
from nexus_cli.core.event import TOO_LITTLE
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.pins import describe_pin
from nexus_cli.reports.text.blocks import Blocks, Paragraph, TitledTable
from nexus_cli.reports.text.lines import dollars, number, plural

SOURCES = {
    "window": "the current context",
    "transcript": "a transcript of these messages",
    "originals": "the original messages, not the earlier summary",
}
FATES = {"whole": "word for word", "part": "in part", "no": "summarized only"}
NAMED, SHOWN = 3, 12
"""Most messages named as staying among the summarized ones, and most of the person's messages shown."""
PLACES = {
    "window": "remains in place",
    "summary": "below the summary",
    "dropped": "does not fit; can be recalled",
}


def compaction_text(value: JsonObject) -> Blocks:
    """Describe the effect of `/compact` now."""
    if not value["possible"]:
        effect = "Nothing to compact" if value["why"] == TOO_LITTLE else "nexus might refuse a compaction"
        yield f"{effect}: {value['why']} ({number(value['before'])} tokens in use)."
        yield _pin_rows(value["pins"])
        return
    summary, goes = value["summary"], value["goes"]
    effect = f"A compaction would reduce {number(value['before'])} tokens to at most {number(value['after'])}"
    if value["after"] >= value["before"]:
        effect = f"A compaction might not free any of the {number(value['before'])} tokens"
    yield f"{effect} (budget: {number(value['budget'])}). Nothing was sent or changed."
    rows = [_row("summarized", goes), _row("kept", value["stays"])]
    if record := value["record"]["most"]:
        rows.append(("record", record, "", "", "files, commands and goals (maximum)"))
    rows.append(("summary", summary["most"], 1, 0, "(maximum)"))
    yield TitledTable("after a compaction", "part | tokens | messages | turns | includes", rows)
    yield Paragraph("Tokens are estimated.", "  ")
    source = SOURCES.get(summary["source"], summary["source"])
    how = f"{summary['model']} will write the summary from {source}: {summary['why']}."
    yield from ["", _goes(goes), "", how]
    yield _words(value["words"])
    yield _pin_rows(value["pins"])
    yield from _cost(value["cost"])


def _row(name: str, part: JsonObject) -> tuple[Any, ...]:
    kinds = ", ".join(f"{kind} {number(tokens)}" for kind, tokens in part["by_kind"].items())
    return name, part["tokens"], part["messages"], part["turns"], kinds


def _goes(goes: JsonObject) -> str:
    """List the messages to be summarized by number, the way to read them afterwards, and those among them that stay."""
    how = "the model can recall them" if goes["recall"] else "/drops prints them"
    text = f"The summary will replace messages {goes['first']} to {goes['last']}; {how}"
    inside = [str(entry) for entry in goes["without"]]
    if not inside:
        return f"{text}."
    return f"{text}. Kept: {name_first(inside, NAMED)} (your last request)."


def _words(rows: Sequence[JsonObject]) -> TitledTable:
    """List the person's messages in the summarized part, each with its outcome."""
    newest = rows[-SHOWN:]
    shown = f", {len(newest)} of {len(rows)} shown" if len(rows) > len(newest) else ""
    table = [(row["entry"], FATES.get(row["kept"], ""), row["text"]) for row in newest]
    return TitledTable(f"your messages{shown}", "message | kept as | text", table)


def _pin_rows(rows: Sequence[JsonObject]) -> TitledTable:
    table = [(row["id"], describe_pin(row), row["tokens"], PLACES[row["where"]], row["text"]) for row in rows]
    return TitledTable("pins", "id | what | tokens | where | text", table)


def _cost(cost: JsonObject) -> Blocks:
    now = cost["now"]
    rows = [("the summary", dollars(now["warm"]), dollars(now["cold"]))]
    for row in cost["next"]:
        label = "next request" if row["requests"] == 1 else f"next {row['requests']} requests"
        for name in ("without", "with"):
            rows.append((f"{label} {name} compaction", dollars(row[name]["warm"]), dollars(row[name]["cold"])))
    if all("-" not in row for row in rows):
        yield TitledTable("cost", "input of | warm | cold", rows)
    yield from ["", _sum(cost)]


def _sum(cost: JsonObject) -> str:
    """Describe the cost with the current cache and when it pays off, in one sentence."""
    state, cache_state = ("may still be warm", "warm") if cost["warm_now"] else ("is cold or unknown", "cold")
    (one, several), price = cost["next"][:2], cost["now"][cache_state]
    parts = (
        price,
        one["with"][cache_state],
        one["without"][cache_state],
        several["with"][cache_state],
        several["without"][cache_state],
    )
    if None in parts:
        return "Cost unknown: a model has no known price, or a subscription covers it."
    first, later = parts[1] - parts[2], (parts[4] - parts[3] - (parts[2] - parts[1])) / (several["requests"] - 1)
    difference = f"{dollars(abs(first))} {'more' if first >= 0 else 'less'}"
    text = f"The cache {state}: the summary costs {dollars(price)}, the next request {difference}"
    text += f", each later request {dollars(abs(later))} {'less' if later >= 0 else 'more'}"
    if later <= 0:
        return f"{text}. A compaction does not pay for itself."
    number_of = max(1, 1 + math.ceil((price + first) / later))
    return f"{text}. A compaction pays for itself after {plural(number_of, 'request')}."
