"""The contents of the project: folders, languages and characteristic files, from names alone."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.elide import clip_text, one_line, plural
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import Layer, Phase, Section, Sections

HEADER = "# Project files"
FOLDERS, FEW_FOLDERS = 16, 6
LANGUAGES, FEW_LANGUAGES = 5, 2
NOTABLE = 8
LONGEST = 60
"""Most characters of one name."""


def read(sources: Sources) -> Value:
    """Return `files`, `folders`, `languages`, `notable`, `whole` of the `Outline`, and `way`, the way to see all."""
    outline = sources.outline()
    return {
        "files": outline.files,
        "folders": [[_name(name), count] for name, count in outline.folders],
        "languages": [[name, count] for name, count in outline.languages],
        "notable": [_name(name) for name in outline.notable],
        "whole": outline.whole,
        "way": "; `glob` lists them." if "glob" in sources.tools() else ".",
    }


def render(value: Value, view: View) -> Sections:
    """Return one section; nothing for a project without files."""
    if not value["files"]:
        return ()
    forms_lines = [
        _lines(value, FOLDERS, LANGUAGES, NOTABLE),
        _lines(value, FEW_FOLDERS, FEW_LANGUAGES, 0),
        [f"{_size(value)}{value['way']}"],
    ]
    forms = shrink_forms(["\n".join([HEADER, *lines]) for lines in forms_lines], view.count)
    return (Section("workspace", Phase.MEMORY, forms, Layer.SYSTEM, priority=50, source="the project's files"),)


def _lines(value: Value, folders: int, languages: int, notable: int) -> list[str]:
    counted, kinds = value["folders"], [f"{count:,} {name}" for name, count in value["languages"]]
    lines = [f"{_size(value)}: {_shorten_list(kinds, languages, ' language')}" if kinds else _size(value)]
    inside = [f"{name}/ ({count:,})" for name, count in counted[:folders]]
    if len(counted) > folders:
        inside.append(
            f"{plural(len(counted) - folders, 'more folder')} ({sum(count for _, count in counted[folders:]):,})"
        )
    if inside:
        lines.append(f"Folders (files): {', '.join(inside)}")
    if notable and value["notable"]:
        lines.append(f"At the top: {_shorten_list(value['notable'], notable)}")
    return lines


def _shorten_list(names: Sequence[str], most: int, noun: str = "") -> str:
    """Return the first of `names`, and the number of the others, which are `noun` (singular)."""
    omitted = len(names) - most
    more = f"{omitted} more{noun}{'s' * bool(noun and omitted > 1)}"
    return ", ".join([*names[:most], *([more] if omitted > 0 else [])])


def _size(value: Value) -> str:
    return f"{'' if value['whole'] else 'over '}{plural(value['files'], 'file')}"


def _name(name: str) -> str:
    return clip_text(one_line(name), LONGEST, "...")


CONTRIBUTORS = (Contributor("workspace", Layer.SYSTEM, read, render),)
