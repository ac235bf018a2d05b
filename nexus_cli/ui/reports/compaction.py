"""What a compaction kept, what one would do, and what is pinned: lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.core.event import CompactionDone
from nexus_cli.ui.reports.lines import Value, block, dollars, filled, number, one_line, plural

SOURCES = {
    "window": "the window itself",
    "transcript": "a transcript of the window",
    "originals": "the original messages, not the earlier summary",
}
PLACES = {
    "window": "stays where it is",
    "summary": "below the summary",
    "dropped": "no room: left out, can be recalled",
}


def fidelity_text(fidelity: Mapping[str, Any] | None) -> str:
    """`kept 41 of 43 commitments, 2 added`; "" where there were none."""
    if not fidelity or not fidelity.get("total"):
        return ""
    added = fidelity.get("added") or 0
    lines = added if isinstance(added, int) else len(added)
    text = f"kept {fidelity.get('retained', 0):,} of {plural(int(fidelity['total']), 'commitment')}"
    text += f", {lines:,} added" if lines else ""
    away = fidelity.get("recallable") or 0
    text += f", {away:,} to be recalled" if away else ""
    missing = fidelity.get("missing") or 0
    return text + (f", {missing:,} missing" if missing else "")


def compacted(event: CompactionDone) -> str:
    """How a compaction ended: the figures, or why it was not accepted."""
    if not event.ok:
        return f"not compacted: {event.why.rstrip('.')}. Nothing was changed"
    kept = fidelity_text(event.fidelity)
    return f"compacted: {event.before:,} tokens became {event.after:,}" + (f"; {kept}" if kept else "")


def compaction_text(value: Value, width: int) -> str:
    """What `/compact` would do now."""
    if not value["possible"]:
        text = f"Nothing to compact: {value['why']} ({number(value['before'])} tokens are used)."
        return "\n".join([*filled(text, width), *_pins(value["pins"], width)])
    summary, goes = value["summary"], value["goes"]
    lines = filled(
        f"{number(value['before'])} tokens would become at most {number(value['after'])} "
        f"of a budget of {number(value['budget'])}. Nothing was sent or changed.",
        width,
    )
    rows: list[tuple[str, ...]] = [("part", "tokens", "messages", "turns", "of which")]
    rows += [_row("goes", goes), _row("stays", value["stays"])]
    rows.append(("summary", number(summary["most"]), "1", "0", "at most so much"))
    lines += block("what goes and stays", rows, width)
    where = f"Messages {goes['first']} to {goes['last']} go, and can be recalled."
    how = f"{summary['model']} would sum up {SOURCES.get(summary['source'], summary['source'])}: {summary['why']}."
    words = value["own_words"]
    said = f"Of your own words {plural(len(words), 'message')} would stand before the summary." if words else ""
    for text in (where, how, said):
        lines += ["", *filled(text, width)] if text else []
    lines += block("your words that go", _said(goes["newest"]), width)
    lines += _pins(value["pins"], width)
    return "\n".join([*lines, *_cost(value["cost"], width)])


def pins_text(value: Value, width: int) -> str:
    """What is pinned."""
    if not value["pins"]:
        return "\n".join(filled("Nothing is pinned. /pin TEXT or /pin 14 pins words or a message.", width))
    text = f"{plural(len(value['pins']), 'pin')}, {number(value['tokens'])} of {number(value['room'])} tokens."
    rows = [(str(one["id"]), _place(one), number(one["tokens"]), str(one["text"])) for one in value["pins"]]
    return "\n".join([*filled(text, width), *block("pinned", [("id", "what", "tokens", "text"), *rows], width)])


def _row(name: str, part: Value) -> tuple[str, ...]:
    kinds = ", ".join(f"{kind} {number(tokens)}" for kind, tokens in part["by_kind"].items())
    return name, number(part["tokens"]), number(part["messages"]), number(part["turns"]), kinds


def _said(rows: Sequence[Value]) -> list[tuple[str, ...]]:
    return [("message", "text"), *((number(one["entry"]), str(one["text"])) for one in rows)]


def _pins(rows: Sequence[Value], width: int) -> list[str]:
    table: list[tuple[str, ...]] = [("id", "what", "tokens", "where", "text")]
    table += [
        (str(one["id"]), _place(one), number(one["tokens"]), PLACES[one["where"]], str(one["text"]))
        for one in rows
    ]
    return block("pins", table, width)


def _place(one: Value) -> str:
    return f"message {one['entry']}" if one["entry"] else "words"


def _cost(cost: Value, width: int) -> list[str]:
    now = cost["now"]
    rows = [("input of", "warm", "cold"), ("the summary now", dollars(now["warm"]), dollars(now["cold"]))]
    for one in cost["next"]:
        what = "next request" if one["requests"] == 1 else f"next {one['requests']}"
        for name in ("without", "with"):
            rows.append((f"{what} {name} it", dollars(one[name]["warm"]), dollars(one[name]["cold"])))
    state = "The cache is warm now" if cost["warm_now"] else "The cache is cold now, or not known to be warm"
    why = one_line(f"{state}. {cost['rewrite']['why']}.", 10 * width)
    return [*block("cost", rows, width), "", *filled(why, width)]
