"""`nexus space open`: take part in a space from a terminal. The other verbs are in `commands/space.py`."""

from __future__ import annotations

from nexus_cli.commands.arguments import read_settings
from nexus_cli.commands.space import As, SpaceName, find_member
from nexus_cli.commands.verb import Authority, Source, Verb


def chat_in_terminal(source: Source, space: SpaceName, name: As = "") -> int:
    """Chat in a space from this terminal. Ctrl+D leaves."""
    from nexus_cli.cli.run.open_space import open_space  # noqa: PLC0415  (loads the screen)

    settings = read_settings(source)
    return open_space(source.ledger, settings, *find_member(source, settings, space, name))


VERBS = (Verb(chat_in_terminal, "open", Authority.OPERATES, "write"),)
