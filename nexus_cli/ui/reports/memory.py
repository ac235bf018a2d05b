"""`nexus memory` and `/memory`: what waits for the person, whole, that nothing is accepted unread; then the rest."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, plural, table, when


def memory_text(value: Value, width: int) -> str:
    """The facts of a listing, or what a search found."""
    facts = value.get("facts", [])
    waiting = [fact for fact in facts if fact["state"] == "proposed"]
    kept = [fact for fact in facts if fact["state"] == "kept"]
    if not facts:
        text = "Nothing that fits is remembered." if "text" in value else "Nothing is remembered here yet."
        return "\n".join(filled(text, width))
    lines: list[str] = []
    if waiting:
        text = f"{plural(len(waiting), 'proposal')} of the model; they count once you accept them (/memory accept ID):"
        lines += [*filled(text, width), *_whole(waiting, width), ""]
    if value.get("whole"):
        lines += _whole(kept, width)
    elif kept:
        rows = [("id", "slot", "since (UTC)", "from", "text")]
        rows += [(f["id"], f["slot"], when(f["at"])[:10], _from(f, 6), f["text"]) for f in kept]
        lines += table(rows, width)
    return "\n".join(lines).rstrip("\n")


def fact_text(value: Value, width: int) -> str:
    """What was just done with facts, and they."""
    facts = value.get("facts", [])
    if not facts:
        return "\n".join(filled("There was nothing to do.", width))
    return "\n".join([*filled(f"{str(value.get('done', 'kept')).capitalize()}:", width), *_whole(facts, width)])


def _whole(facts: list[Value], width: int) -> list[str]:
    lines = []
    for fact in facts:
        head = f"{fact['id']}  {fact['slot']}, {when(fact['at'])[:10]}, {_from(fact, 26)}"
        lines += [*filled(head, width, "    ", ""), *filled(str(fact["text"]), width, "    ")]
        if fact["state"] == "proposed" and fact.get("quote"):
            lines += filled(f'rests on {fact["actor"]}: "{fact["quote"]}"', width, "    ")
    return lines


def _from(fact: Value, most: int) -> str:
    """The source, with at most the last so many characters of a session's id."""
    session = str(fact.get("session") or "")
    if not fact.get("entry") or fact.get("deleted"):
        return str(fact["source"])
    return f"{session[-most:]} [{fact['entry']}]"
