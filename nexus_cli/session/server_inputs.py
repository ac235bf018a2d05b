"""Attach what a message names of MCP servers: resources as `@SERVER:URI`, and the prompt of `/mcp__SERVER__PROMPT`.

Each follows the typed text as a block with its source, like an attached file. Its words are the server's, not the
person's: our own forms in them are made harmless.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, TypeAlias

from nexus_cli.context.manager import ContextManager
from nexus_cli.core.attachment import TEXT, AttachedFile, Part, Trigger
from nexus_cli.core.elide import plural
from nexus_cli.core.entry import Cause
from nexus_cli.core.errors import UsageError, suggest_name
from nexus_cli.core.image_check import choose_images
from nexus_cli.core.typed_text import typed_words
from nexus_cli.engine.requests.clip_output import clip_to_cap
from nexus_cli.engine.requests.control import Control
from nexus_cli.mcp.server_tools import PREFIX, Catalogue
from nexus_cli.mcp.server_values import ServerAnswer, ServerEntry, ServerError, ServerPrompt
from nexus_cli.text.untrusted_text import neutralize

RESOURCE = re.compile(r"(?<![\w.@+/\\-])@([A-Za-z0-9][\w.-]*):([A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"'`|]+)")
CALL = re.compile(rf"/({PREFIX}[\w-]+)(?:\s+(.*))?\s*", re.DOTALL)
TRAILING_CHARACTERS = ".,;:!?)]}*_"
"""Characters that may follow a URI in a sentence without being part of it."""
BLOCK_END = re.compile(r"<\s*/\s*(resource|command)\b", re.IGNORECASE)
MAX_NAMED = 20
"""Most resources of one message."""


Open: TypeAlias = Callable[[ServerEntry], tuple[Any, ServerEntry]]
"""Returns the `McpHost`, and the entry to name to it."""


async def attach_named(
    context: ContextManager, control: Control, catalogue: Catalogue, open_server: Open, trigger: Trigger
) -> Trigger:
    """Return the trigger with what its typed words name. A resource that cannot be read is named in a notice; raise
    `NexusError` for a prompt that cannot, because the message would be without its text."""
    words = typed_words(trigger.text, trigger.pasted)
    inputs = _Inputs(context, control, catalogue, open_server)
    if called := CALL.fullmatch(words):
        await inputs.call_prompt(called[1], (called[2] or "").strip())
    resources = list(dict.fromkeys(RESOURCE.findall(words)))
    for server, uri in resources[:MAX_NAMED]:
        await inputs.add_resource(server, uri)
    if len(resources) > MAX_NAMED:
        inputs.tell(f"a message can attach at most {MAX_NAMED} resources; the others are sent as text")
    return inputs.add_to(trigger)


@dataclass
class _Inputs:
    context: ContextManager
    control: Control
    catalogue: Catalogue
    open_server: Open
    blocks: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    files: list[AttachedFile] = field(default_factory=list)

    def tell(self, line: str, *, warning: bool = True) -> None:
        self.control.emit_notice(line, warning=warning)

    def add_to(self, trigger: Trigger) -> Trigger:
        if not self.blocks:
            return trigger
        text = "\n\n".join([trigger.text, *self.blocks])
        parts, files = (*trigger.parts, *self.parts), (*trigger.files, *self.files)
        return replace(trigger, text=text, parts=parts, files=files)

    async def add_resource(self, server: str, uri: str) -> None:
        if server not in self.catalogue.entries:
            hint = suggest_name(server, self.catalogue.entries, "")
            self.tell(f"no MCP server {server}; sent as text. {hint}".rstrip(". "))
            return
        listed = self.catalogue.lists.get(server)
        if not listed or uri not in dict(listed.resources):
            uri = uri.rstrip(TRAILING_CHARACTERS)
        try:
            host, entry = self.open_server(self.catalogue.entries[server])
            answer = await host.read_resource(entry, uri)
        except ServerError as error:
            self.tell(f"@{server}:{uri} was not attached: {error}")
            return
        await self._add(answer, "resource", f'server="{escape(server)}" uri="{escape(uri)}"', f"{server}:{uri}")

    async def call_prompt(self, name: str, arguments: str) -> None:
        prompts = self.catalogue.prompts()
        if name not in prompts:
            hint = suggest_name(f"/{name}", [f"/{prompt_name}" for prompt_name in prompts], "")
            self.tell(f"no MCP server has a prompt {name}; sent as text. {hint}".rstrip(". "))
            return
        server, prompt = prompts[name]
        values = read_arguments(prompt, arguments)
        if missing := [argument for argument, required in prompt.arguments if required and argument not in values]:
            usage = f"/{name} {prompt.usage}"
            raise UsageError(f"/{name}", f"{missing[0]} is missing", f"Usage: {usage}")
        try:
            host, entry = self.open_server(self.catalogue.entries[server])
            answer = await host.get_prompt(entry, prompt.name, values)
        except ServerError as error:
            raise UsageError(f"/{name}", str(error), "The message was not sent") from error
        await self._add(answer, "command", f'name="{name}" source="MCP server {escape(server)}"', name)

    async def _add(self, answer: ServerAnswer, tag: str, attributes: str, path: str) -> None:
        context = self.context
        images, lines, refused = choose_images(answer.images, context.model.info)
        text = BLOCK_END.sub(r"< /\1", neutralize("\n".join(filter(None, [answer.text, *lines]))))
        cap, label = context.budget.file_cap, f"{tag} {path}"
        clipped = await clip_to_cap(context, self.control, text, cap, label, Cause.INPUT_CAP)
        self.blocks.append(f"<{tag} {attributes}>\n{clipped.text.removesuffix(chr(10))}\n</{tag}>")
        count = text.count("\n") + 1 if text else 0
        self.files.append(AttachedFile(f"@{path}", TEXT, len(text.encode(errors="replace")), 1, count))
        self.files += [AttachedFile(f"@{path}", part.media_type, len(part.data)) for part in images]
        self.parts += images
        self.tell(f"Attached {path}, {plural(count, 'line')}", warning=False)
        if refused:
            self.tell(f"{path}: {refused}")


def read_arguments(prompt: ServerPrompt, text: str) -> dict[str, str]:
    """Return the arguments of a prompt by name: `NAME=VALUE` anywhere, other words in the order of the names; what is
    left over belongs to the last one."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    names = [name for name, _ in prompt.arguments]
    values: dict[str, str] = {}
    unnamed: list[str] = []
    for word in words:
        name, has_value, value = word.partition("=")
        if has_value and name in names:
            values[name] = value
        else:
            unnamed.append(word)
    free = [name for name in names if name not in values]
    for place, name in enumerate(free):
        if unnamed:
            values[name] = " ".join(unnamed) if place == len(free) - 1 else unnamed.pop(0)
    return values
