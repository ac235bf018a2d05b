"""Split a Markdown file into its front matter and its text.

Front matter is YAML between two lines `---`. What other programs accept is accepted: values with a colon that nobody
quoted. Most files have plain lines `key: value`, which are read without the YAML library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.json_value import parse_nested

FENCE = "---"
LIMIT = 64 * 1024
"""Most characters of front matter."""
CODEX_ROLE = "developer_instructions"
"""The key of an agent of codex with its role."""
_OPENED = re.compile(rf"{FENCE}[^\S\n]*\n[A-Za-z][\w-]*[^\S\n]*:")
"""A fence followed by a key: a rule above a text has none."""
_LINE = re.compile(r"([A-Za-z][\w-]*):[ \t]+(?:\"([^\"\\]*)\"|'([^']*)'|([A-Za-z(](?:(?! #).)*?))[ \t]*")
"""A line whose value YAML would read as the same text; one with an unquoted colon is no YAML."""
_KEYED = re.compile(r"([A-Za-z][\w-]*:|[ \t]*-)[ \t]+([^\s|>].*?)[ \t]*")
"""A line with a value: of a key, or of a list."""
_AS_WRITTEN = ("argument-hint",)
"""Keys whose brackets mean no list."""
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The parts of a file."""

    fields: Mapping[str, str]
    """Values by key in lower case; a list is joined by commas."""
    text: str
    """The text after the front matter."""
    problem: str = ""
    """Why the front matter cannot be read; else ""."""


def split_guide(text: str, path: str, *, cut: bool = False) -> FrontMatter:
    """Split the text of a guide by the form of its file: an agent of codex is TOML. Never raises."""
    return _read_agent_toml(text) if path.endswith(".toml") else read_front_matter(text, cut=cut)


def _read_agent_toml(text: str) -> FrontMatter:
    import tomllib  # noqa: PLC0415  (few agents are TOML)

    try:
        table = parse_nested(tomllib.loads, text)
        fields = {key.lower(): value if isinstance(value, str) else repr(value) for key, value in table.items()}
    except ValueError:
        return FrontMatter({}, "", "is not valid TOML")
    role = fields.pop(CODEX_ROLE, "")
    return FrontMatter(fields, role, "" if role.strip() else f"has no {CODEX_ROLE}")


def read_front_matter(text: str, *, cut: bool = False) -> FrontMatter:
    """Split `text`; `cut` if it is only the beginning of its file. An unclosed fence without a key is not front matter.
    Line ends become a newline. Never raises."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return FrontMatter({}, text)
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), 0)
    if not end:
        opened = _OPENED.match(text)
        within = f" in its first {LIMIT // 1024} KiB" if cut else ""
        return FrontMatter({}, text, f"has front matter without a closing {FENCE} line{within}" if opened else "")
    inner, body = "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])
    plain = _read_plain(inner)
    return _read_yaml(inner, body) if plain is None else FrontMatter(plain, body)


def _read_plain(inner: str) -> dict[str, str] | None:
    """Return the fields if every line is a key with a plain value, else None."""
    fields: dict[str, str] = {}
    for line in inner.splitlines():
        match = _LINE.fullmatch(line)
        value = match and next((group for group in match.groups()[1:] if group is not None), "")
        if match is None or value is None or (match[4] is not None and value.casefold() in _WORDS):
            return None
        fields[match[1].lower()] = value
    return fields


def _read_yaml(inner: str, body: str) -> FrontMatter:
    import yaml  # noqa: PLC0415  (slow, and few files need it)

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    problem = ""
    for prepare in (str, _quote_broken):
        if len(inner) > 2 * LIMIT:
            return FrontMatter({}, body, f"has front matter larger than {LIMIT // 1024} KiB")
        try:
            table = yaml.load(prepare(inner), loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f" (line {mark.line + 2})" if mark else ""
            problem = problem or f"has front matter that is not valid YAML{where}"
            continue
        if table is None:
            return FrontMatter({}, body)
        if isinstance(table, dict):
            fields = {str(key).lower(): _as_text(value) for key, value in table.items()}
            written = {match[1][:-1].lower(): match[2] for match in map(_KEYED.fullmatch, inner.splitlines()) if match}
            as_written = {
                key: written[key] for key in _AS_WRITTEN if key in fields and written.get(key, "").startswith("[")
            }
            return FrontMatter({**fields, **as_written}, body)
        problem = "has front matter without keys"
    return FrontMatter({}, body, problem)


def _quote_broken(inner: str) -> str:
    """Return front matter with quotes around each value that is no YAML by itself: `[file] [line]`, `*.py`, `a: b`."""
    import yaml  # noqa: PLC0415  (as above)

    lines = inner.splitlines()
    for place, line in enumerate(lines):
        if match := _KEYED.fullmatch(line):
            try:
                yaml.load(line, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            except (yaml.YAMLError, ValueError, RecursionError):
                lines[place] = f"{match[1]} '{match[2].replace(chr(39), chr(39) * 2)}'"
    return "\n".join(lines)


def _as_text(value: Any) -> str:
    """Return a value as one text. Only one level of a list or table is read, so that aliases cannot multiply it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_scalar(part)}" for key, part in value.items())
    if isinstance(value, list | tuple | set):
        return ", ".join(map(_scalar, value))
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, Mapping | list | tuple | set):
        return "" if value is None else "..."
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
