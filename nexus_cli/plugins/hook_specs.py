"""The hooks of Python plugins. Each returns the same objects that the registry of its kind holds.

A plugin is a module or class whose functions are marked with `pluggy.HookimplMarker("nexus")`. It may leave out
arguments that it does not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pluggy

from nexus_cli.core.json_value import JsonObject

hookspec = pluggy.HookspecMarker("nexus")


class HookSpecs:
    """Declare the hooks that a plugin may implement. The first four are called once, the others again and again, for at
    most 0.5 s."""

    @hookspec
    def nexus_tools(self) -> Iterable[Any]:
        """Return tools (`nexus_cli.core.tool.Tool`) for the model. Their effect and paths decide what is asked."""
        return ()

    @hookspec
    def nexus_commands(self) -> Iterable[Any]:
        """Return slash commands (`nexus_cli.commands.command.Command`). Their docstring is their help."""
        return ()

    @hookspec
    def nexus_contributors(self) -> Iterable[Any]:
        """Return contributors (`nexus_cli.sections.contributor.Contributor`) of sections of a request."""
        return ()

    @hookspec
    def nexus_checks(self) -> Iterable[Any]:
        """Return checks (`nexus_cli.config.checks.EditCheck`) of files that were edited."""
        return ()

    @hookspec
    def nexus_recall(self, project: str, about: str) -> Sequence[str]:
        """Return lines from a memory about a project (its folder) that are relevant to the person's message `about`.

        They become the section `recall.PLUGIN`.
        """
        return ()

    @hookspec(firstresult=True)
    def nexus_tool_line(self, tool: str, arguments: JsonObject) -> str | None:
        """Return the line on the screen for a call of a tool that is not built in, None for the usual one."""
        return None
