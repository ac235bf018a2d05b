"""Sessions: the list, one whole, a search, the last exchange, and whether requests were rebuilt as sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nexus_cli.ui.reports.lines import Value, cut_line, filled, folded, number, plural, shortened, table, when

HEAD = ("id", "name", "folder", "model", "recipe", "created", "updated", "turns", "parent", "cost_usd")
TITLE = 200
"""Columns of a title at most, where the lines are as long as what they hold."""


def sessions_text(value: Value, width: int) -> str:
    """Return the sessions of a folder or of all."""
    sessions = value.get("sessions", [])
    if not sessions:
        text = "No sessions here yet. `nexus sessions list --all` shows those of other folders."
        return "\n".join(filled(text, width))
    rows = [("id", "updated (UTC)", "turns", "what")]
    for s in sessions:
        what = s.get("name") or title_of(s.get("first_text")) or f"({s.get('recipe')})"
        rows.append((str(s["id"]), when(s.get("updated")), number(s.get("turns")), cut_line(what, TITLE)))
    return "\n".join(table(rows, width, right=(2,)))


def title_of(text: object) -> str:
    """Return the beginning of a session as its title: the person's words without what went along with them."""
    return str(text or "").split("\n\n<", 1)[0]


def session_text(value: Value, width: int) -> str:
    """Return one session: its head, then what happened as it happened: a result names the call that it answers."""
    lines = [cut_line(f"{key:<8}  {value[key]}", width) for key in HEAD if value.get(key) not in (None, "")]
    for entry in value.get("entries", []):
        answers = f" of {entry['call']}" if entry.get("call") else ""
        lines += ["", cut_line(f"[{entry.get('id')}] {when(entry.get('at'))} {entry.get('actor', '')}{answers}", width)]
        lines += folded(text, width) if (text := str(entry.get("text") or "").rstrip("\n")) else []
        for call in entry.get("calls", []):
            given = call.get("raw") or call.get("arguments", "")
            lines.append(cut_line(f"-> {call.get('id', '')} {call.get('name')} {given}", width))
    return "\n".join(lines)


def search_text(value: Value, width: int) -> str:
    """Return where a text occurs: session and entry, then the words around it."""
    hits = value.get("hits", [])
    where = "any folder" if value.get("folder") is None else "the sessions of this folder"
    if not hits:
        lines = filled(f"`{cut_line(value.get('text'), 200)}` does not occur in {where}.", width)
    else:
        lines = []
        for hit in hits:
            name = f" {hit['name']}" if hit.get("name") else ""
            head = f"{hit['session']} [{hit['entry']}] {when(hit['at'])} {hit['actor']}{name}"
            lines += [*filled(head, width, "    ", ""), *filled(str(hit["snippet"]), width, "    "), ""]
        more = ", the newest; --limit shows more" if value.get("more") else ""
        lines += filled(f"{plural(len(hits), 'place')}{more}.", width)
    if value.get("damaged"):
        lines += filled(f"{plural(int(value['damaged']), 'damaged text')} could not be read.", width)
    return "\n".join(lines)


WORDS, ANSWER = 6, 15
"""Lines that are shown of the person's words, and of the end of the answer."""
OPEN = {True: "outcome unknown, the process ended while it ran", False: "not run yet"}


def last_text(value: Value, width: int, render: Callable[[str, int], list[str]] = folded) -> str:
    """Return what was said last, the answer as lines of `render`, then what is still open and how to go on."""
    if not value.get("entries"):
        return "\n".join(filled("Nothing was said in this session yet.", width))
    title = f"session {value['session']}{' ' + str(value['name']) if value.get('name') else ''}"
    title += f", {plural(int(value['turns']), 'turn')}, last at {when(value['at'])} UTC"
    words = folded(str(value.get("user") or "").strip(), width, "> ") if value.get("user") else []
    lines = [*filled(title, width), "", *shortened(words, WORDS, width)]
    if answer := str(value.get("assistant") or "").strip():
        lines += ["", *shortened(render(answer, width), ANSWER, width, tail=True)]
    calls = value.get("open", [])
    lines += [""] if calls else []
    for call in calls:
        subject = cut_line(call.get("subject"), 60)
        said = " ".join(filter(None, (str(call["name"]), subject)))
        lines += filled(f"{said}: {OPEN[bool(call.get('started'))]}", width, "  ", "! ")
    if not value.get("finished", True):
        lines += ["", *filled("This turn was cut short. /continue to resume it.", width)]
    return "\n".join(lines)


ONE_LINE = 1 << 20
FEW = 5
"""Steps that are named."""


def replay_text(value: Value, width: int = ONE_LINE) -> str:
    """Return one sentence, and for each thing that `--wire` found one more; on the command line each on a line of its
    own, for `grep`."""
    session, count = value["session"], int(value["requests"])
    if not value["ok"]:
        text = f"Session {session} differs from what was sent: {value['first_difference']}"
    elif not count:
        text = f"Session {session} has sent no request: there is nothing to compare."
    else:
        text = f"{plural(count, 'request')} of session {session} rebuilt: every line is as it was sent."
    told = [text, *(_wire(value["wire"]) if "wire" in value else ())]
    return "\n".join(line for sentence in told for line in filled(sentence, width))


def _wire(value: Value) -> list[str]:
    """Return what `--wire` found, in one or a few sentences; what was asked beside the conversation is named by its
    lane."""
    lanes = [("", value), *((f" of side lane {one['lane']} ({one['agent']})", one) for one in value.get("beside", ()))]
    equal = sum(int(one["equal"]) for _, one in lanes)
    compared = equal + sum(len(one["differ"]) for _, one in lanes)
    if not compared:
        parts = [f"No body could be compared ({value['library']})."]
    else:
        parts = [f"{equal} of {compared} bodies, made by {value['library']}, equal what was sent."]
    parts += [f"Different: {_steps(one['differ'])}{whose}." for whose, one in lanes if one["differ"]]
    for whose, one in lanes:
        parts += [f"Not compared: {_steps(steps)}{whose}, because {why}." for why, steps in one["skipped"].items()]
    return parts


def _steps(steps: Sequence[int]) -> str:
    named = ", ".join(map(str, steps[:FEW])) + (", ..." if len(steps) > FEW else "")
    return f"{'request' if len(steps) == 1 else 'requests'} {named}"
