"""`nexus sessions list | show | search`: sessions as a table, one of them whole, and where a text occurs in them."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, folded, number, one_line, plural, table, when

HEAD = ("id", "name", "folder", "model", "recipe", "created", "updated", "turns", "parent", "cost_usd")
TITLE = 200
"""Columns of a title at most, where the lines are as long as what they hold."""


def sessions_text(value: Value, width: int) -> str:
    """The sessions of a folder or of all."""
    sessions = value.get("sessions", [])
    if not sessions:
        text = "No sessions here yet. `nexus sessions list --all` shows those of other folders."
        return "\n".join(filled(text, width))
    rows = [("id", "updated (UTC)", "turns", "what")]
    for s in sessions:
        what = s.get("name") or title_of(s.get("first_text")) or f"({s.get('recipe')})"
        rows.append((str(s["id"]), when(s.get("updated")), number(s.get("turns")), one_line(what, TITLE)))
    return "\n".join(table(rows, width, right=(2,)))


def title_of(text: object) -> str:
    """The beginning of a session as its title: the person's words without what went along with them."""
    return str(text or "").split("\n\n<", 1)[0]


def session_text(value: Value, width: int) -> str:
    """One session: its head, then what happened as it happened: a result names the call that it answers."""
    lines = [one_line(f"{key:<8}  {value[key]}", width) for key in HEAD if value.get(key) not in (None, "")]
    for entry in value.get("entries", []):
        answers = f" of {entry['call']}" if entry.get("call") else ""
        lines += ["", one_line(f"[{entry.get('id')}] {when(entry.get('at'))} {entry.get('actor', '')}{answers}", width)]
        lines += folded(text, width) if (text := str(entry.get("text") or "").rstrip("\n")) else []
        for call in entry.get("calls", []):
            given = call.get("raw") or call.get("arguments", "")
            lines.append(one_line(f"-> {call.get('id', '')} {call.get('name')} {given}", width))
    return "\n".join(lines)


def search_text(value: Value, width: int) -> str:
    """Where a text occurs: session and entry, then the words around it."""
    hits = value.get("hits", [])
    where = "any folder" if value.get("folder") is None else "the sessions of this folder"
    if not hits:
        lines = filled(f"`{one_line(value.get('text'), 200)}` does not occur in {where}.", width)
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
