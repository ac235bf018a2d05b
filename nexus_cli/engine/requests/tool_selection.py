"""Select the tool schemas of an epoch, so that a session does not pay for tools that it does not need."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.elide import Count, name_first, plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import USE_TOOL
from nexus_cli.core.services import Workers
from nexus_cli.core.tool import Tool
from nexus_cli.core.wire import canonical
from nexus_cli.sections.recipe import Recipe
from nexus_cli.tools.registry import ToolRegistry

Schemas = Sequence[JsonObject]
MAX_NAMED = 20
"""Most MCP servers that the description of `use_tool` names."""
MENTION = r"(?<!\w)(?:{})s?(?!\w)"
"""Finds a whole word or phrase, also in the plural."""
SMALL_WINDOW = 16_000
"""Tokens below which a window is small: all schemas together take at most a twelfth of it, if they can."""


@dataclass
class ToolOffer:
    """The schemas of a session's epochs.

    Every epoch has the schemas of the tools that work on a project needs, and `use_tool`, which stands for the others.
    Another tool is offered by itself if the person's message, the recipe, the settings or stored data mention it, if an
    earlier epoch offered it, or once it was called. All of this is decided when an epoch begins.
    """

    registry: ToolRegistry
    recipe: Recipe
    limits: Limits
    """Those with which the session was opened."""
    attended: bool
    """True if a person is at the terminal. Counts for the first epoch of a session."""
    requested_tools: Callable[[], Collection[str]]
    """Returns the names of tools that settings or what is stored speak of. Blocks."""
    count: Count
    schemas: Schemas = ()
    """Those of the newest epoch that began or was drafted."""
    is_denied: Callable[[Tool], bool] = lambda tool: False
    """Returns True for a tool of which a rule denies every call: it is in no schema of a new epoch."""

    def select(self, window: int, conversation: Conversation, words: str = "", called: Collection[str] = ()) -> Schemas:
        """Decide on the tools of the next epoch of a conversation, in a window of so many tokens. `words` is the first
        message of a session, `called` what `requested_tools` returned."""
        requested = {*called, *(call.name for item in conversation.items for call in item.message.tool_calls)}
        attended = self.attended
        folded, before = words.casefold(), canonical(conversation.epoch.tools).decode()
        for tool in self.registry.tools():
            if tool.asks and conversation.epoch.tools:  # the first epoch decides: another text would miss the cache
                attended = tool.name in before
            spoken = [re.escape(word) for word in (tool.name, *tool.words) if word in folded]
            if spoken and tool.behind and not tool.server and re.search(MENTION.format("|".join(spoken)), folded):
                requested.add(tool.name)
        attempts = ((requested, conversation.epoch.tools, True), ((), (), True), ((), (), False))
        for offered, sent_tools, wraps in attempts:
            self.schemas = self.select_tools(offered, sent_tools, attended=attended, wraps=wraps)
            if window >= SMALL_WINDOW or self.count(canonical(self.schemas).decode()) <= window // 12:
                break
        return self.schemas

    def select_tools(
        self,
        called: Collection[str] = (),
        sent_schemas: Iterable[JsonObject] = (),
        *,
        attended: bool = False,
        wraps: bool = True,
    ) -> Schemas:
        """Return the schemas of the tools that the recipe allows and no rule denies, without those behind `use_tool`
        that are not in `called`.

        The tools of `sent_schemas`, the schemas of the epoch before, stay whatever the recipe allows. Without `wraps`
        there is no `use_tool`, which does not name what the limits exclude. `attended`: somebody is
        there to answer questions.
        """
        allowed_tools, categories = self.recipe.limits.tools, self.recipe.limits.categories
        allowed = [
            tool
            for tool in self.registry.tools()
            if (allowed_tools is None or tool.name in allowed_tools)
            and (categories is None or str(tool.effect) in categories)
            and not (Workers in tool.needs and self.recipe.limits.sub_agents is False)
            and (attended or not tool.asks)
            and not self.is_denied(tool)
        ]
        wrapper = [tool for tool in allowed if tool.name == USE_TOOL]
        sent_names, behind = {str(schema["function"]["name"]) for schema in sent_schemas}, list[Tool]()
        for tool in allowed:
            if tool.behind and wrapper and allowed_tools is None and tool.name not in (*called, *sent_names):
                behind.append(tool)
            else:
                sent_names.add(tool.name)
        if self.limits.tools is not None:
            behind = [tool for tool in behind if tool.name in self.limits.tools]
        if not (wraps and behind):
            sent_names.discard(USE_TOOL)
        definitions = [
            definition for definition in self.registry.get_definitions() if definition["function"]["name"] in sent_names
        ]
        lines = [f"- {tool.name}: {tool.behind}" for tool in behind if not tool.server]
        servers = _describe_servers([tool for tool in behind if tool.server])
        servers += [f"{name} (starting)" for name in self.registry.starting]
        if servers:
            listed = name_first(servers, MAX_NAMED)
            lines.append(f"- MCP servers {listed}: pass search words as `name` to find their tools")
        for definition in definitions:
            if definition["function"]["name"] == USE_TOOL:
                definition["function"]["description"] = "\n".join([definition["function"]["description"], *lines])
        return definitions


def _describe_servers(tools: Iterable[Tool]) -> list[str]:
    """Return each server of `tools` with what they are: a number of tools, or resources."""
    kinds = dict[str, Counter[tuple[str, ...]]]()
    for tool in tools:
        kinds.setdefault(tool.server, Counter())[tool.counted_as] += 1
    counted = {
        name: [kind[1] if kind else plural(count, "tool") for kind, count in servers.items()]
        for name, servers in kinds.items()
    }
    return [f"{name} ({', '.join(offers)})" for name, offers in counted.items()]


def describe_left_out(window: int, tools: Iterable[JsonObject]) -> str:
    """Return a line for the person if a request with `tools` in a small window lacks those behind `use_tool`."""
    names = {tool["function"]["name"] for tool in tools}
    if window >= SMALL_WINDOW or not names or USE_TOOL in names:
        return ""
    return f"small context window ({window:,} tokens): only the file and command tools are available"
