"""The commands that run at the events of a session."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.hooks.hook_list import ACTIVE, UNTRUSTED, Hook, list_hooks
from nexus_cli.reports.text.blocks import Blocks, Paragraph
from nexus_cli.reports.text.command_names import name_commands


class HooksReport(VersionedReport):
    """The hooks of a folder."""

    hooks: list[JsonOf[Hook]]


def hooks_text(value: JsonObject) -> Blocks:
    """Return a line for each hook, with its state below if it does not run."""
    if not value["hooks"]:
        yield "No hooks (see `nexus docs hooks`)."
    for hook in value["hooks"]:
        matcher = f" {hook['matcher']}" if hook["matcher"] else ""
        late = ", on_timeout = deny" if hook["on_timeout"] == "deny" else ""
        line = f"{hook['event']}{matcher}: {hook['command']} ({hook['source']}{late})".strip(": ")
        yield Paragraph(line if hook["command"] else hook["source"], "    ", "")
        if hook["state"] != ACTIVE:
            yield Paragraph(f"{hook['state']}: {hook['why']}", "    ", "  ")


def count_hooks(hooks: Sequence[JsonObject]) -> str:
    """Return `2 hooks; 1 more not trusted`, followed by the command that lists them, for the status."""
    states = [hook["state"] for hook in hooks]
    active, other_states = states.count(ACTIVE), [state for state in dict.fromkeys(states) if state != ACTIVE]
    more = [f"{states.count(state)} {state}" for state in sorted(other_states, key=lambda state: state != UNTRUSTED)]
    return "; ".join([f"{active} active", *more]) + name_commands(" (`nexus hooks`)")


def build_list(source: Source) -> Report[HooksReport]:
    """List hooks with their source and state.

    Your hooks are in config.toml; those of a project run only after you trust the project (`nexus docs hooks`).
    """
    hooks = to_json_value(list_hooks(source.folder(), source.settings().hook))
    return Report("hooks", {"version": 1, "hooks": hooks}, uncut=True)


NOUN = Noun(
    "hooks",
    "setup",
    (Verb(build_list, opens="nothing"),),
    "Show commands that run at session events.",
    aliases=("hook",),
)
