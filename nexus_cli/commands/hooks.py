"""The commands that run at the events of a session."""

from __future__ import annotations

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.reports.hooks import HooksReport, hooks_report


def list_hooks(source: Source) -> Report[HooksReport]:
    """List hooks with their source and state.

    Your hooks are in config.toml; those of a project run only after you trust the project (`nexus docs hooks`).
    """
    return Report("hooks", {"version": 1, "hooks": hooks_report(source.folder(), source.settings().hook)}, whole=True)


NOUN = Noun(
    "hooks",
    "setup",
    (Verb(list_hooks, opens="nothing"),),
    "Show commands that run at session events.",
    aliases=("hook",),
)
