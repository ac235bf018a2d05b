"""The NEXUS.md layers, each a section of its own under a header that names its folder; and rules by path.

The layers take together at most the instruction cap: short ones stay whole, the long ones share the rest. A long layer
has four forms: whole, without its middle, its headings, and one line with file and size. The rules that name a file of
the session, and the layers of the folders that lead to one, share half of that cap, and are sent once per epoch, also
on a tool result.
"""

from __future__ import annotations

import re
from pathlib import Path

from nexus_cli.config.paths import project_root
from nexus_cli.config.unasked_files import UnaskedFiles
from nexus_cli.context.loader import ContextLayer
from nexus_cli.core.budget import share_room
from nexus_cli.core.elide import Count, drop_marker, elide_text, one_line, plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.real_files import real_path
from nexus_cli.sections.contributor import Contributor, Sources, Value, View, notices
from nexus_cli.sections.instruction_files import BESIDE, layers_below
from nexus_cli.sections.path_rules import PathRule, list_path_rules
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections, unread_note

SLOTS = {"global": 8, "ancestor": 9, "local": 10}
SLOT_OF_RULES = 12
MAX_GLOBS = 5
"""Most globs of a rule that its header has."""
PRIORITY = 92
SHORT = 400
"""Tokens up to which a layer has one form: whole."""
OUTLINE = 300
"""Tokens of an outline."""
WIDE = 120
"""Most characters of one headline in an outline."""
MARGIN = 8
"""Tokens of a layer beyond header and text: for joining, and for the error of counting in pieces."""
_HEADINGS = re.compile(r"^ {0,3}(?:(#{1,6}[ \t]+\S.*)|(```|~~~).*)$", re.MULTILINE)


def read(sources: Sources) -> Value:
    """Return one record per layer, outermost first: `id`, `slot`, `header`, `text`, `source`, `notice`, `beyond`."""
    layers = sources.instructions()
    root = project_root(sources.cwd)
    numbers = {folder: number for number, folder in enumerate(dict.fromkeys(layer.folder for layer in layers))}
    return [
        {
            "slot": SLOTS[layer.name] + (layer.part == BESIDE[-1]),  # CLAUDE.local.md: one's own, behind the project's
            **_record(_id(layer, numbers[layer.folder]), layer.header, layer, root),
        }
        for layer in layers
    ]


def _record(name: str, header: str, layer: ContextLayer | PathRule, root: Path) -> JsonObject:
    path = layer.path or layer.folder
    return {
        "id": name,
        "header": replace_surrogates(header),
        "text": replace_surrogates(layer.text + unread_note(layer.beyond, path.name)),
        "source": _source(path, root),
        "notice": layer.notice,
        "beyond": layer.beyond,
    }


def render(value: Value, view: View) -> Sections:
    """Return one section per layer with a text; one above its share of the cap is never sent whole (`least`)."""
    value = [layer for layer in value if layer["text"]]
    headers = sum(view.count(layer["header"]) + MARGIN for layer in value)
    return _sections(value, view, view.instruction_cap - headers, Layer.SYSTEM)


def _sections(value: Value, view: View, cap: int, layer: Layer) -> Sections:
    """Return the sections of the records in `value`, which share `cap`. On a tool result one within its share is sent
    whole."""
    sizes = [view.count(record["text"]) for record in value]
    sections = []
    for context_layer, size, room in zip(value, sizes, share_room(sizes, cap), strict=True):
        forms = _forms(context_layer, size, room, view.count)
        sections.append(
            Section(
                context_layer["id"],
                Phase.CONSTRAINT + context_layer.get("slot", SLOT_OF_RULES),
                forms[:1] if layer is Layer.EVENT and size <= room else forms,
                layer,
                PRIORITY,
                sticky=True,
                source=context_layer["source"],
                least=1 if size > room and len(forms) > 1 else 0,
                unread_bytes=context_layer["beyond"],
            )
        )
    return tuple(sections)


def _forms(layer: JsonObject, size: int, room: int, count: Count) -> tuple[str, ...]:
    """Return the forms of a layer: whole, in `room` tokens (half of it if it fits whole), as headings, as one line."""
    text, header = layer["text"], layer["header"]
    full = f"{header}\n{text}"
    if size <= min(SHORT, room):
        return (full,)
    before = len(header) + 1

    def marker(start: int, end: int, total: int, tokens: int) -> str:
        return drop_marker(DROP)(before + start, before + end, before + total, tokens)

    clipped = elide_text(text, room if size > room else size // 2, count, marker)
    pointer = f'{layer["source"] or "NEXUS.md"} of {_folder(header)}: {size:,} tokens, read with recall("{DROP}")'
    forms = [full]
    if not clipped.is_whole and clipped.text:
        forms.append(f"{header}\n{clipped.text}")
        forms += outline(header, text, size, count)
    return (*forms, pointer)


def outline(header: str, text: str, size: int, count: Count) -> list[str]:
    """Return the headings of `text` that fit, one per line, as one form; none if there are none."""
    headings, fence = [], ""
    for match in _HEADINGS.finditer(text):
        line, mark = match.group(1), match.group(2)
        if mark and fence in ("", mark):
            fence = "" if fence else mark
        elif line and not fence:
            headings.append(line.strip() if len(line) <= WIDE else f"{line[:WIDE].strip()}...")
    if not headings:
        return []
    first, last = f"{header}\n", f'[only the headings; all {size:,} tokens: recall("{DROP}")]'
    remaining = OUTLINE - count(first) - count(last) - MARGIN
    rows: list[str] = []
    for heading in headings:
        remaining -= count(heading) + 1
        if remaining < 0:
            break
        rows.append(heading)
    if len(rows) < len(headings):
        more = len(headings) - len(rows)
        rows.append(f"... and {plural(more, 'more heading')}")
    return [first + "\n".join([*rows, last])]


def _folder(header: str) -> str:
    """Return the folder that a header names in its parentheses."""
    return header.partition("(")[2].removesuffix(")") or header


def _id(layer: ContextLayer, number: int) -> str:
    part = f".{replace_surrogates(layer.part)}" if layer.part else ""
    match layer.name:
        case "global":
            return f"instructions.global{part}"
        case "ancestor":
            return f"instructions.ancestor.{number:02}{part}"
        case "local":
            return f"instructions.project{part}"


def _source(path: Path, root: Path) -> str:
    return replace_surrogates(str(path.relative_to(root) if path.is_relative_to(root) else path))


def read_path_rules(sources: Sources) -> Value:
    """Return one record per layer of a folder that leads to a file of the session, and per rule with `paths` that name
    one, as those of `read`."""
    touched = sources.touched()
    if not touched:
        return []
    gate = UnaskedFiles(project_root(real_path(sources.cwd)), sources.is_denied)
    layers = layers_below(sources.cwd, touched, sources.instructions, gate, sources.find_denial)
    pairs = [(layer.header, layer) for layer in layers] + [
        (f"# Rules for {one_line(', '.join(rule.globs[:MAX_GLOBS]))} ({one_line(str(rule.folder))})", rule)
        for rule in list_path_rules(sources.cwd, gate)
        if rule.text and rule.globs and any(map(rule.names, touched))
    ]
    root = gate.project
    return [
        _record(f"path_rules.{_source(rule.path or rule.folder, root)}", header, rule, root) for header, rule in pairs
    ]


def render_path_rules(value: Value, view: View) -> Sections:
    """Return one section per rule: whole within its share of half the instruction cap, else shortened."""
    return _sections([rule for rule in value if rule["text"]], view, view.instruction_cap // 2, Layer.EVENT)


CONTRIBUTORS = (
    Contributor(
        "instructions",
        Layer.SYSTEM,
        read,
        render,
        notices,
        tells_once=True,
        most=1 << 30,
        rest=True,
        verbatim=True,
        required=True,
        parts=("global", "ancestor", "project"),
    ),
    Contributor(
        "path_rules",
        Layer.EVENT,
        read_path_rules,
        render_path_rules,
        notices,
        tells_once=True,
        most=1 << 30,
        verbatim=True,
        prompt=True,
    ),
)
