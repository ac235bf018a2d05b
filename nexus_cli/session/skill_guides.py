"""Give guides to the model, and to the person who calls one: `/NAME ARGUMENTS` begins a message, `$NAME` is in it,
`@NAME` or `@agent-NAME` asks for an agent.

The text of a called guide follows the words as a block with its source, like an attached file. In it, arguments are
filled in, `!` commands run by the same rules, at the same level and in the same sandbox as calls of the tool `bash`,
and `@file` is attached by the rules of `read_file`. Nothing else of a guide runs, and nothing when the model reads one.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from nexus_cli.config.foreign_items import split_commands
from nexus_cli.config.paths import project_root
from nexus_cli.config.unasked_files import MAX_SEARCHED, FileRefused, UnaskedFiles
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import UsageError, suggest_name
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.real_files import real_path
from nexus_cli.core.tool import Effect, find_governing
from nexus_cli.core.typed_text import typed_words
from nexus_cli.engine.requests.clip_output import clip_to_cap
from nexus_cli.guides.guide_model import GuideModel
from nexus_cli.guides.skills import CALL, GuideKind, Skill, explain_uncallable, find_callable
from nexus_cli.permission.folder_rules import read_granted
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.section_sources import index_named
from nexus_cli.text.untrusted_text import neutralize

MENTION = re.compile(r"(?<![\w$\\])\$([A-Za-z][\w-]*(?::[\w-]+)*)")
AGENT_CALL = re.compile(r"(?<![\w.@+/\\`-])@([A-Za-z][\w-]*(?::[\w-]+)*)")
FILE = re.compile(r"(?<![\w.@+/\\`-])@(~?[\w./-]*[\w/-])")
VALUE = re.compile(
    r"\$(?:ARGUMENTS(?:\[(\d{1,2})\])?|(\d{1,2})(?!\d))"
    r"|\$\{(CLAUDE_(?:SKILL_DIR|PROJECT_DIR|PLUGIN_ROOT))\}|\$([A-Za-z_]\w*)"
)
NAMED_BY_VALUE = re.compile(rf"@(?:[\w./~-]|{VALUE.pattern})*(?:[\w/-]|{VALUE.pattern})")
"""A file of whose path an argument or a folder of a guide may be a part: `@$1`, `@src/$1.js`,
`@${CLAUDE_SKILL_DIR}/a.md`."""
FIRST = re.compile(r"\$0(?!\d)")
"""The sign of a guide that counts its arguments from zero."""
BLOCK_END = re.compile(r"<\s*/\s*(skill|command)\b", re.IGNORECASE)
_SUCCESS = re.compile(r"\[exit status 0(?:; pipe: [\d ]+)?(?:; colour codes left out)?\]\Z")
"""The last line of a result of a command that succeeded, perhaps with a pipe's part whose reader ended first."""
MAX_RUN = 20
"""Most commands, and most files, of one guide."""
LISTED = 20
"""Most files of a skill that are named."""


def read_skill(cwd: Path, name: str, file: str = "") -> str:
    """Return the guide of a skill of a folder, or a file of it. The skills are read at each call, so that a changed one
    counts no more."""
    guides = index_named(cwd, GuideKind.SKILL)
    chosen = guides.get(name.strip())
    if chosen is None:
        hint = suggest_name(name.strip(), guides, "")
        raise UsageError(f"skill '{one_line(name)}'", "there is no such skill", hint)
    if file:
        return chosen.read_file(file)
    files = chosen.list_files()
    files_hint = f'; read its other files with skill("{chosen.name}", file=...): {name_first(files, LISTED)}'
    return f"[skill {chosen.name} of {chosen.path}{one_line(files_hint) if files else ''}]\n{chosen.read()}"


async def expand_guides(session: BaseSession, trigger: Trigger) -> Trigger:
    """Return the trigger with the guides that its typed words call behind its text; as it is if they call none.

    A command that is refused or fails is named in its place, a called guide that is not active in a notice. Raises
    `CancelledError` if it is stopped.
    """
    words = typed_words(trigger.text, trigger.pasted)
    called = CALL.fullmatch(words)
    if called is None and not MENTION.search(words) and not AGENT_CALL.search(words):
        return trigger
    cwd = session.dispatcher.cwd
    guides_by_name = await asyncio.to_thread(find_callable, cwd)
    names = [f"/{called[1]}"] if called is not None else []
    missing = [
        name for name in (*names, *(f"${name}" for name in MENTION.findall(words))) if name[1:] not in guides_by_name
    ]
    reasons = await asyncio.to_thread(explain_uncallable, cwd) if missing else {}
    for name in dict.fromkeys(missing):
        if why := reasons.get(name[1:]):
            session.engine.control.emit_notice(f"{name} is sent as text: {why}")
    chosen: dict[str, str] = {}
    if called is not None and called[1] in guides_by_name:
        chosen[called[1]] = (called[2] or "").strip()
    chosen |= {name: "" for name in MENTION.findall(words) if name in guides_by_name and name not in chosen}
    if hooks := session.dispatcher.hooks:
        await hooks.before_expansion(
            [(name, guides_by_name[name], argument_text) for name, argument_text in chosen.items()], trigger.text
        )
    blocks = [await _Expansion(session, guides_by_name[name], arguments).block() for name, arguments in chosen.items()]
    guides = [" ".join(split_commands(await asyncio.to_thread(guides_by_name[name].read))[::2]) for name in chosen]
    blocks += await asyncio.to_thread(_ask_for_agents, "\n".join([words, *guides]), cwd)
    parts = (*trigger.parts, *session.engine.control.pop_images())
    return replace(trigger, text="\n\n".join([trigger.text, *blocks]), parts=parts) if blocks else trigger


def _ask_for_agents(text: str, cwd: Path) -> list[str]:
    """Return a block for each agent that words or guides name; a file of this name comes first."""
    called_names = AGENT_CALL.findall(text)
    agents = index_named(cwd, GuideKind.AGENT) if called_names else {}
    names = dict.fromkeys(name if name in agents else name.removeprefix("agent-") for name in called_names)
    requested_agents = [agents[name] for name in names if name in agents and not (cwd / name).exists()]
    return [
        f'<agent name="{escape(skill.name)}" source="{escape(skill.path)}">\n'
        f'Hand the work to this agent: agent(task, recipe="{skill.name}")\n</agent>'
        for skill in requested_agents
    ]


class _Expansion:
    """One call of a guide."""

    def __init__(self, session: BaseSession, guide: Skill, arguments: str) -> None:
        self._session = session
        self._guide = guide
        self._arguments = arguments
        try:
            self._words = shlex.split(arguments)
        except ValueError:
            self._words = arguments.split()
        self._names = re.findall(r"[A-Za-z_]\w*", guide.fields.get("arguments", ""))
        self._first = 0 if self._names else 1
        """The number by which the guide names the first argument."""

    async def block(self) -> str:
        """Return the block with the guide's text."""
        guide, session = self._guide, self._session
        text = await asyncio.to_thread(guide.read)
        self._first = 0 if FIRST.search(text) else self._first
        self._grant(guide.fields.get("allowed-tools", ""))
        if "model" in guide.fields or "effort" in guide.fields:
            await self._report_unused_model()
        pieces, ran = [], 0
        parts = split_commands(text)
        for number, part in enumerate(parts):
            if number % 2 == 0:
                pieces.append(self._fill(part))
            elif ran < MAX_RUN:
                ran += 1
                if self.is_unsure(part):
                    pieces.append(f"[not run: {one_line(part)}: do not put arguments inside quotes]")
                else:
                    pieces.append(await self._run(Effect.RUN, {"command": self._fill(part, quote=True)}))
            else:
                pieces.append(f"[not run: more than {MAX_RUN} commands]")
        body = BLOCK_END.sub(r"< /\1", "".join(pieces))
        label = f"guide {guide.name}"
        context, control = session.engine.context, session.engine.control
        clipped = await clip_to_cap(context, control, body, context.budget.file_cap, label, Cause.INPUT_CAP)
        filled_text = NAMED_BY_VALUE.sub(self._fill_name, text)
        files = [await self._file(name) for name in _named_files(filled_text, session.dispatcher.cwd)]
        head = f'<{guide.kind} name="{escape(guide.name)}" source="{escape(guide.path)}">'
        return "\n\n".join([f"{head}\n{clipped.text}\n</{guide.kind}>", *files])

    def _grant(self, written: str) -> None:
        """Permit for this turn what `allowed-tools` names; deny and ask rules, and protected files, come first."""
        granted, problems = read_granted(written)
        self._session.dispatcher.granted += tuple(granted)
        if granted:
            self._notify_once(one_line(f"{self._guide.name} allows for this turn: {', '.join(granted)}"))
        for problem in problems:
            self._notify_once(f"allowed-tools of {self._guide.name}: {problem}")

    async def _report_unused_model(self) -> None:
        """Report the model or effort that the guide asks for and this turn does not use."""
        engine = self._session.engine
        now = engine.model
        guide_model = await asyncio.to_thread(GuideModel.read, self._guide, now.info.name, engine.settings)
        for problem in guide_model.problems:
            self._notify_once(f"{self._guide.name} requests {problem}; not applied")
        if guide_model.differs_from(now.info.name, now.effort):
            self._notify_once(
                f"{self._guide.name} requests {guide_model}; not applied (use --model, --effort or /model)"
            )

    def _fill(self, text: str, *, quote: bool = False) -> str:
        """Return `text` with the arguments, quoted for a shell if it is a command."""

        def fill(match: re.Match[str]) -> str:
            value = self._find_value(match)
            if value is None or match[3]:
                return value or match[0]
            is_whole = match[1] is match[2] is match[4] is None
            if quote and _quotes_at(text, match.start()) == '"':  # `"$1"`: its quotes are closed and opened again
                return f'"{shlex.quote(value)}"'
            if quote and is_whole:
                return shlex.join(self._words)
            return shlex.quote(value) if quote and value else value

        return VALUE.sub(fill, text)

    def _fill_name(self, match: re.Match[str]) -> str:
        """Return the name of a file with its values, if that is one plain path; else as it is."""
        name = VALUE.sub(lambda value: self._find_value(value) or value[0], match[0])
        return name if FILE.fullmatch(name) else match[0]

    def _find_value(self, match: re.Match[str]) -> str | None:
        """Return the text for a sign of the guide, None if it stays: a number without argument may be a price, or
        belong to a script."""
        if match[3] == "CLAUDE_PLUGIN_ROOT":
            return self._guide.plugin_root or None
        if match[3]:
            root = project_root(self._session.dispatcher.cwd)
            return str(Path(self._guide.path).parent if match[3] == "CLAUDE_SKILL_DIR" else root)
        if match[4] is not None:
            place = self._names.index(match[4]) if match[4] in self._names else -1
            return None if place < 0 else self._words[place] if place < len(self._words) else ""
        if match[1] is None and match[2] is None:
            return self._arguments
        place = int(match[1]) if match[1] is not None else int(match[2]) - self._first
        return self._words[place] if 0 <= place < len(self._words) else None

    def is_unsure(self, command: str) -> bool:
        """Return True if an argument in a line of the shell is in quotes that more than itself is in, or may be in
        those of a command in quotes: what was typed could then run."""
        filled = [match for match in VALUE.finditer(command) if not match[3] and self._find_value(match) is not None]
        if filled and '"' in command and "$(" in command:
            return True
        for reference in filled:
            inside = _quotes_at(command, reference.start())
            is_lone = inside == '"' == command[reference.start() - 1] == command[reference.end() : reference.end() + 1]
            if inside and not is_lone:
                return True
        return False

    async def _file(self, path: str) -> str:
        text = await asyncio.to_thread(self._explain_withheld, path) or await self._run(Effect.READ, {"path": path})
        return f'<file path="{escape(path)}">\n{text}\n</file>'

    def _explain_withheld(self, path: str) -> str:
        """Return the reason that a file of the project that a guide names, which is not the person's own, is not
        attached; "" for any other: the rules of `read_file` decide."""
        cwd = self._session.dispatcher.cwd
        gate = UnaskedFiles(project_root(cwd))
        place = Path(os.path.normpath(cwd / os.path.expanduser(path)))
        if self._guide.origin == "personal" or not real_path(place).is_relative_to(gate.project):
            return ""
        try:
            gate.read(place, MAX_SEARCHED)
        except FileRefused as refused:
            return f"[not attached: {one_line(path)} {refused}]"
        except OSError:
            return ""
        return ""

    async def _run(self, effect: Effect, arguments: Mapping[str, str]) -> str:
        """Return the result of a call of the tool that governs this effect, by the rules of the session, as text that
        cannot pose as ours."""
        dispatcher = self._session.dispatcher
        tool = find_governing(dispatcher.registry.tools(), effect)
        label = one_line(next(iter(arguments.values())))
        if tool is None:
            return f"[not run: {label}: this session has no tool with the effect {effect}]"
        call = ToolCall(f"guide-{secrets.token_hex(6)}", tool.name, dict(arguments))
        if refusal := dispatcher.begin_own_call(self._session.engine, call, tool):
            return f"[not run: {label}: {refusal.why}]"
        return await self._clip_output(await dispatcher.execute_own(call, tool, label), label)

    async def _clip_output(self, result: ToolResult, subject: str) -> str:
        if not result.ran:
            return f"[not run: {subject}: {one_line(result.error)}]"
        context, control = self._session.engine.context, self._session.engine.control
        # The status of a success would stand in the middle of a sentence.
        text = neutralize(result.text if result.warning else _SUCCESS.sub("", result.text))
        cap, label = context.budget.output_cap, f"output of {subject[:80]}"
        return (await clip_to_cap(context, control, text, cap, label, Cause.OUTPUT_CAP)).text.rstrip("\n")

    def _notify_once(self, line: str) -> None:
        shown_lines = self._session.shown_lines
        if line not in shown_lines:
            shown_lines.add(line)
            self._session.engine.control.emit_notice(line, warning=False)


def _named_files(text: str, cwd: Path) -> Sequence[str]:
    """Return the existing files that a guide mentions as `@PATH`."""
    names = dict.fromkeys(FILE.findall(" ".join(split_commands(text)[::2])))
    return [name for name in names if os.path.isfile(cwd / os.path.expanduser(name))][:MAX_RUN]


def _quotes_at(command: str, place: int) -> str:
    """Return the kind of quotes of a shell in which `place` is, "" outside."""
    inside, escaped = "", False
    for char in command[:place]:
        if escaped:
            escaped = False
        elif char == "\\" and inside != "'":
            escaped = True
        elif char == inside:
            inside = ""
        elif not inside and char in "'\"":
            inside = char
    return inside
