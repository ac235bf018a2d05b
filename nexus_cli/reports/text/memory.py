"""`nexus memory`, `/memory`, `/goal` and `/reflect`. Proposals are shown in full, so that nothing is accepted
unread."""

from __future__ import annotations

from nexus_cli.reports.text.lines import Value, filled, table, when

HERE = "  # this session: after you have left it"
"""Comment after the command that deletes the session in which it is shown: the line can still be pasted."""


def memory_text(value: Value, width: int) -> str:
    """List the facts of a listing or a search."""
    facts = value.get("facts", [])
    waiting = [fact for fact in facts if fact["state"] == "proposed" or fact.get("waits")]
    kept = [fact for fact in facts if fact["state"] == "kept"]
    if not facts:
        text = "Nothing remembered matches." if "text" in value else "Nothing is remembered yet."
        return "\n".join(filled(text, width))
    lines: list[str] = []
    if waiting:
        lines += [*filled(_waits(waiting), width), *_whole(waiting, width), ""]
    if value.get("whole"):
        lines += _whole(kept, width)
        if value.get("more"):
            lines += ["", *filled(f"The best {len(facts)}; more match.", width)]
    elif kept:
        rows = [("id", "slot", "since", "from", "text")]
        rows += [
            (f["id"], f["slot"], when(f["at"])[:10], str(f.get("place") or f["source"]), _statement(f)) for f in kept
        ]
        lines += table(rows, width)
    return "\n".join(lines).rstrip("\n")


def fact_text(value: Value, width: int) -> str:
    """Describe the action on facts, and list them. A forgotten fact is gone, so that this is its last line."""
    facts, done = value.get("facts", []), str(value.get("done", "kept"))
    gone = facts if done == "forgotten" else value.get("forgotten", [])
    if not facts and not gone:
        return "\n".join(filled("Nothing to do.", width))
    lines = [line for fact in gone for line in _forgotten(fact, width, str(value.get("here", "")))]
    if done == "forgotten":
        return "\n".join(lines)
    return "\n".join([*filled(f"{done.capitalize()}:", width), *_whole(facts, width), *lines])


def _forgotten(fact: Value, width: int, here: str) -> list[str]:
    """List the fact and every session in which it stays readable until that is deleted: no later report could name
    them."""
    held = fact.get("told_in", [])
    done = "Forgotten" if held else "Forgotten for good"
    lines = filled(f"{done}: {fact['id']} ({fact['slot']}) {fact['text']}", width, "    ", "")
    if held:
        which = "1 session still contains it, and its model can read it, until you delete it:"
        if len(held) > 1:
            which = f"{len(held):,} sessions still contain it, and their models can read it, until you delete them:"
        lines += filled(which, width, "    ", "")
        lines += [f"    nexus sessions delete {one}{HERE if one == here else ''}" for one in held]
    return lines


def _waits(waiting: list[Value]) -> str:
    if len(waiting) == 1:
        return f"1 proposal of the model waits for you (/memory accept {waiting[0]['id']}):"
    count = f"{len(waiting):,} proposals of the model wait"
    return f"{count} for you (/memory accept ID, or all):"


def _whole(facts: list[Value], width: int) -> list[str]:
    lines = []
    for fact in facts:
        head = f"{fact['id']}  {fact['slot']}, {when(fact['at'])[:10]}, {fact['source']}"
        worded = fact["state"] == "kept" and fact.get("waits")
        lines += [*filled(head, width, "    ", ""), *filled(_statement(fact), width, "    ")]
        if worded:
            how = f"active in your own words; the model's wording waits (/memory accept {fact['id']}): {fact['text']}"
            lines += filled(how, width, "    ")
        if fact["state"] == "proposed" and fact.get("quote"):
            own = fact["actor"] == "agent"
            ground = "the model's reason" if own else f"based on {fact['actor']}"
            lines += filled(f'{ground}: "{fact["quote"]}"', width, "    ")
        if fact["state"] == "proposed" and fact.get("replaces"):
            lines += filled(f"replaces {', '.join(fact['replaces'])}", width, "    ")
    return lines


def _statement(fact: Value) -> str:
    """Return a kept fact as requests state it, or a proposal in the wording to be accepted."""
    return str(fact["text"] if fact["state"] == "proposed" else fact.get("statement") or fact["text"])


SHOWN = 5
"""Most facts that are named by their ids."""


def goals_text(value: Value, width: int) -> str:
    """List each goal and its steps, with a mark for done ones."""
    if not value["goals"]:
        return "\n".join(filled("This session has no goal. /goal TEXT sets one.", width))
    lines = []
    for goal in value["goals"]:
        lines += _line(goal, "", width)
        for step in goal["steps"]:
            lines += _line(step, "  ", width)
    return "\n".join(lines)


def reflection_text(value: Value, width: int) -> str:
    """Show the model's review (None if it is shown already), and the lessons that wait."""
    lines = [line for text in (value["text"] or "").splitlines() for line in filled(text, width)]
    lines = lines if lines or value["text"] is None else ["(no answer)"]
    if new := value.get("waiting"):
        every = "all" if len(new) > 1 and not value.get("older") else "ID" if len(new) > 1 else new[0]
        names = ", ".join(new) if len(new) <= SHOWN else f"{new[0]} to {new[-1]}"
        lessons = "1 lesson waits" if len(new) == 1 else f"{len(new):,} lessons wait"
        lines += ["", *filled(f"{lessons} for you ({names}): /memory shows them, /memory accept {every} keeps.", width)]
    return "\n".join(lines)


def _line(one: Value, indent: str, width: int) -> list[str]:
    mark = "x" if one["done"] else " "
    return filled(f"{one['id']} {one['text']}", width, f"{indent}    ", f"{indent}[{mark}] ")
