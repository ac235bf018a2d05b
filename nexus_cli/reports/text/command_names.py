"""Name commands as the front end takes them.

Our sentences name a command as a shell takes it, `nexus NOUN VERB`, wherever a shell has it. Where a session shows
them, it is `/NOUN VERB` (`nexus_cli.commands.use_slash_names`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

NameCommands = Callable[[str], str]
"""Returns one of our own sentences with the commands of a front end."""
FRONT_END_COMMANDS: ContextVar[NameCommands] = ContextVar("door", default=str)
"""How the front end for which a report is drawn names commands."""


def name_commands(text: str) -> str:
    """Return one of our own sentences with the commands of the front end for which a report is drawn."""
    return FRONT_END_COMMANDS.get()(text)
