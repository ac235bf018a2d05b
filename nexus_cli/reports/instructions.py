"""Report the instruction files of a folder: their price, and what in them is repeated, contradicted or already known.

Compares whole lines, reads settings by their keys, and judges no prose: what it names is certain, what it does not name
may still be there. `/init` uses the same counts for the file that it has written.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from nexus_cli.config.paths import defaults_dir, project_root, with_tilde
from nexus_cli.config.programs import find_program
from nexus_cli.config.text_file import read_text
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.elide import Count, cut_at_word, one_line, plural
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.price import price_usage
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage, round_dollars
from nexus_cli.core.wire import as_table
from nexus_cli.reports.text.blocks import Blocks, Paragraph
from nexus_cli.reports.text.lines import number
from nexus_cli.sections.contributor import View
from nexus_cli.sections.instruction_files import list_instructions

LONG = 2000
"""Tokens above which a file is called long."""
REQUESTS = 100
"""Requests that a price is for: the files are read from the cache with each."""
MIN_WORDS = 4
"""Least words of a line that is compared with others."""
STATEMENT = 15
"""Most words of a line that can repeat a setting."""
MAX_BYTES = 1 << 20
EXCLUSIVE = (("tabs", "spaces"), ("single", "double"), ("npm", "pnpm", "yarn", "bun"), ("always", "never"))
"""Words of which two lines that are equal otherwise cannot have two."""
NEGATIONS = frozenset({"not", "never", "no", "don", "t", "do"})
_WORDS = re.compile(r"[^\W_]+(?:\.\d+)*")
_BULLET = re.compile(r"^[\s>]*(?:[-*+]|\d+[.)])?\s+")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SHELL = re.compile(r"^[ \t]*```[ \t]*(?:sh|bash|shell|zsh|console)?[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_PAIR = re.compile(r"(?m)^\s*([\w-]+)\s*=\s*([^\s#;]+)")
_SCRIPT = re.compile(r"\b(npm|pnpm|yarn|bun)(?: run)? ([\w:.-]+)|\b(make) ([\w.-]+)")


class InstructionFileObject(TypedDict):
    """One instruction file, and its price."""

    path: str
    kind: Literal["instructions", "import", "rule"]
    paths: list[str]
    """The globs of a rule, or the folder of a file, that is sent with the first file there."""
    tokens: int
    cost_usd: float | None
    """Dollars for the report's number of requests, read from the cache; null if the price is unknown."""


@dataclass(frozen=True, slots=True)
class InstructionFinding:
    """One line, or a whole file, that could be shorter or is wrong."""

    kind: Literal["duplicate", "contradiction", "stated", "long", "problem"]
    path: str
    line: int
    """0 for the whole file."""
    text: str
    other: str = ""
    """The location of the text that this one repeats or contradicts."""


class InstructionsReport(VersionedReport):
    """With `--instructions`: the instruction files of the project, and their price."""

    model: str | None
    requests: int
    tokens: int
    """Tokens of the files that are sent with every request."""
    cap: int
    cost_usd: float | None
    files: list[InstructionFileObject]
    findings: list[JsonOf[InstructionFinding]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one file, as words."""

    path: str
    number: int
    text: str
    words: tuple[str, ...]

    def finding(self, kind: Any, other: str) -> InstructionFinding:
        """Return the finding about it."""
        text = cut_at_word(one_line(self.text.strip()), 100)
        return InstructionFinding(kind, self.path, self.number, text, other)


def instructions_report(
    folder: Path, info: ModelInfo | None, count: Count, is_denied: Callable[[Path], bool]
) -> InstructionsReport:
    """Return the report on the files that a session in `folder` can send; blocks. Prices are those of `info`.

    What `is_denied` is not imported; neither is a rule that is a link to it.
    """
    root = project_root(folder)
    files: list[InstructionFileObject] = []
    texts: dict[str, str] = {}
    findings: list[InstructionFinding] = []
    for layer, globs in list_instructions(folder, is_denied):
        path, text, notice = layer.path, layer.text, layer.notice
        name = _format_path(path, root) if path else ""
        name = "built-in instructions" if path and path.parent == defaults_dir() else name
        if notice:
            problem = notice.removeprefix(f"{path} ")
            findings.append(InstructionFinding("problem", name, 0, problem))
        if path is None or not text:
            continue
        texts[name] = text
        tokens = count(text)
        rule = layer.part.startswith(".claude/rules/")
        kind: Any = "rule" if rule else "import" if layer.part else "instructions"
        cost = _read_cost(info, tokens)
        files.append({"path": name, "kind": kind, "paths": [*globs], "tokens": tokens, "cost_usd": cost})
        if tokens > LONG:
            advice = f"{tokens:,} tokens: move parts about certain files to .claude/rules, with `paths`"
            findings.append(InstructionFinding("long", name, 0, advice))
    lines = [line for name, text in texts.items() for line in _read_lines(name, text)]
    findings += [*_compare_lines(lines), *_find_configured(lines, root)]
    always = sum(file["tokens"] for file in files if not file["paths"])
    window = info or ModelInfo("", "openai", 128_000, known=False)
    cap = View.of("", "", TokenBudget.of(window.window, window.max_output), count).instruction_cap
    return {
        "version": 1,
        "model": info.name if info else None,
        "requests": REQUESTS,
        "tokens": always,
        "cap": cap,
        "cost_usd": _read_cost(info, always),
        "files": files,
        "findings": to_json_value(findings),
    }


def _read_cost(info: ModelInfo | None, tokens: int) -> float | None:
    """Return the dollars for `tokens` in `REQUESTS` requests, read from the cache; None if the price is unknown."""
    cost = price_usage(Usage(tokens, cache_read=tokens), info) if info else None
    return round_dollars(cost.total * REQUESTS) if cost else None


def _format_path(path: Path, root: Path) -> str:
    return one_line(os.path.relpath(path, root) if path.is_relative_to(root) else with_tilde(path))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORDS.findall(text))


def _read_lines(name: str, text: str) -> Iterator[Line]:
    """Yield the lines with words, without headings."""
    for number_, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield Line(name, number_, line, _words(_BULLET.sub("", f" {line}")))


def _compare_lines(lines: Iterable[Line]) -> Iterator[InstructionFinding]:
    """Yield lines that repeat an earlier one, and those that differ from one by a number, a word of `EXCLUSIVE`, or a
    negation alone."""
    groups = {word: f"<{index}>" for index, row in enumerate(EXCLUSIVE) for word in row}
    first: dict[tuple[str, ...], Line] = {}
    for line in lines:
        before = first.setdefault(line.words, line)
        if before is not line and len(line.words) >= MIN_WORDS:
            yield line.finding("duplicate", f"{before.path}:{before.number}")
        if len(line.words) < 2:
            continue
        blanked = tuple("<n>" if word[0].isdigit() else groups.get(word, word) for word in line.words)
        plain = tuple(word for word in line.words if word not in NEGATIONS)
        for key in (("=", *blanked), ("", *plain)) if len(plain) > 1 else (("=", *blanked),):
            before = first.setdefault(key, line)
            is_value = key[0] == "=" and sum(a != b for a, b in zip(before.words, line.words, strict=True)) == 1
            is_negation = key[0] == "" and bool(NEGATIONS & {*before.words} ^ NEGATIONS & {*line.words})
            if is_value or is_negation:
                yield line.finding("contradiction", f"{before.path}:{before.number}")
                break


def _find_configured(lines: Iterable[Line], root: Path) -> Iterator[InstructionFinding]:
    """Yield lines that repeat a script or a setting of the project, or give a number that differs from it."""
    settings, scripts = [*_read_settings(root)], _read_scripts(root)
    managers = [(place, value) for place, key, value in settings if key == "packageManager"][:1]
    for line in lines:
        for match in _SCRIPT.finditer(line.text):
            if stated := scripts.get((("make" if match[3] else "npm"), match[2] or match[4])):
                others = [place for place, manager in managers if match[1] not in (None, manager)]
                yield line.finding("contradiction" if others else "stated", *others or [stated])
                break
        for place, key, value in settings if len(line.words) <= STATEMENT else ():
            keys = _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key))
            has_key = [any(word.startswith(key) for word in line.words) for key in keys]
            words = {*_words(value)}
            if any(has_key) and words and words <= {*line.words, *(word.removesuffix("s") for word in line.words)}:
                yield line.finding("stated", place)
                break
            if all(has_key) and value.isdigit() and any(word.isdigit() for word in line.words):
                yield line.finding("contradiction", place)


def _read_settings(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield place, key and value of the settings of formatters, linters and package managers, where they are plain
    numbers or names."""
    project = _read_table(root / "pyproject.toml", tomllib.loads)
    tools = as_table(project.get("tool"))
    ruff = as_table(tools.get("ruff"))
    package = _read_table(root / "package.json", json.loads)
    manager = {"packageManager": str(package.get("packageManager", "")).partition("@")[0]}
    tables: list[tuple[str, JsonObject]] = [
        ("pyproject.toml", {"requires-python": as_table(project.get("project")).get("requires-python")}),
        ("pyproject.toml", {**ruff, **as_table(ruff.get("format")), **as_table(tools.get("black"))}),
        ("ruff.toml", _read_table(root / "ruff.toml", tomllib.loads)),
        ("package.json", {**as_table(package.get("engines")), **manager}),
        (".prettierrc", _read_table(root / ".prettierrc", json.loads)),
        (".editorconfig", dict(_PAIR.findall(_read(root / ".editorconfig")))),
    ]
    for name, table in tables:
        for key, value in table.items():
            if isinstance(value, int | str) and not isinstance(value, bool) and str(value).strip():
                yield f"{name}: {key} = {str(value).strip()}", key, str(value).strip()


def _read_scripts(root: Path) -> dict[tuple[str, str], str]:
    """Return the places of the project's scripts, by program and name."""
    scripts = as_table(_read_table(root / "package.json", json.loads).get("scripts"))
    places = {("npm", name): f"package.json: scripts.{name}" for name in scripts}
    targets = re.findall(r"(?m)^([A-Za-z][\w.-]*)\s*:(?!=)", _read(root / "Makefile"))
    return places | {("make", name): f"Makefile: {name}" for name in targets}


def _read_table(path: Path, parse: Callable[[str], Any]) -> JsonObject:
    try:
        return as_table(parse(_read(path)))
    except (ValueError, RecursionError):
        return {}


def _read(path: Path) -> str:
    try:
        file_text = read_text(path, MAX_BYTES)
    except NexusError:
        return ""
    return file_text.text if file_text else ""


def check_written(path: Path, count: Count, most: int, succeeded: Collection[str]) -> tuple[list[str], str]:
    """Return the problems of an instruction file that was written for `most` tokens, and its price in one line; "" if
    there is no file. `succeeded` are the commands that ended with exit status 0."""
    text = _read(path)
    if not text:
        return [], f"There is no {path.name}."
    tokens = count(text)
    problems = [f"{path.name} has {tokens:,} tokens, {tokens - most:,} too many"] if tokens > most else []
    if untried := untried_commands(text, succeeded):
        commands = ", ".join(f"`{one_line(line)}`" for line in untried)
        problems.append(f"These commands did not run successfully in this session: {commands}")
    return (
        problems,
        f"{path.name}: {tokens:,} of {most:,} tokens, sent with every request after the next session start or /reload",
    )


def untried_commands(text: str, succeeded: Collection[str]) -> list[str]:
    """Return the commands in code of `text` that are no part of a command that `succeeded`."""
    shell = [line.removeprefix("$ ") for block in _SHELL.findall(text) for line in map(str.strip, block.splitlines())]
    spans = [span for span in _SPAN.findall(_SHELL.sub("", text)) if _is_command(span)]
    ran = [" ".join(command.split()) for command in succeeded]
    plain = (" ".join(line.split(" #")[0].split()) for line in (*shell, *spans) if not line.startswith("#"))
    return [line for line in dict.fromkeys(plain) if line and not any(line in command for command in ran)]


def _is_command(span: str) -> bool:
    """Return True for a program with arguments."""
    name, _, arguments = span.strip().partition(" ")
    return bool(arguments) and (
        name.startswith("./") or (name.isascii() and "/" not in name and bool(find_program(name)))
    )


def instructions_text(value: JsonObject) -> Blocks:
    """List the files with their prices, then the findings."""
    for file in value["files"]:
        when = f", for {', '.join(file['paths'][:3])}" if file["paths"] else ""
        cost = "" if file["cost_usd"] is None else f", ${file['cost_usd']:.4f}"
        price = f"{plural(file['tokens'], 'token')}{cost}"
        yield Paragraph(f"{file['path']} ({file['kind']}{when}): {price}", "    ", "  ")
    total = f"{number(value['tokens'])} of at most {number(value['cap'])} tokens are sent with every request"
    if value["cost_usd"] is not None:
        total += f"; cached, they cost ${value['cost_usd']:.4f} in {value['requests']} requests to {value['model']}"
    yield from ["", total, ""]
    for finding in value["findings"]:
        location = f"{finding['path']}:{finding['line']}" if finding["line"] else finding["path"]
        verb = {"duplicate": "repeats", "contradiction": "contradicts", "stated": "repeats"}.get(finding["kind"])
        text = f'"{finding["text"]}" {verb} {finding["other"]}' if verb else finding["text"]
        yield Paragraph(f"{location}: {text}" if location else text, "  ")
    summary = (
        plural(len(value["findings"]), "finding") if value["findings"] else "No repetitions or contradictions found"
    )
    yield f"{summary}."
