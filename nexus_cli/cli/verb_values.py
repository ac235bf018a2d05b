"""Values that complete the first argument of a verb in a shell: names of sessions, runs, servers."""

from __future__ import annotations

from contextlib import suppress

from nexus_cli.cli.app import find_noun
from nexus_cli.cli.opened_ledger import open_unchanged_ledger
from nexus_cli.cli.shell_command import ShellSource


def list_values(name: str, verb_name: str) -> list[str]:
    """Return the values for a verb of the noun `name` that are one word."""
    noun = find_noun(name)
    for verb in noun.verbs if noun else ():
        if verb.name == verb_name and callable(verb.complete):
            with suppress(Exception):  # a line that is being typed has no place for an error
                source = ShellSource(open_unchanged_ledger, of_session=verb.of_session)
                return [value for value in verb.complete(source) if " " not in value]
    return []
