"""Check a prompt of `nexus ask` that calls a guide: `/NAME ARGUMENTS`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nexus_cli.commands import discover
from nexus_cli.config.settings import Settings
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import suggest_name
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.guides.guide_model import GuideModel
from nexus_cli.guides.skills import CALL, find_callable


def choose_guide_model(trigger: Trigger, cwd: Path, model: str, settings: Settings) -> GuideModel | None:
    """Return the model and effort that the called guide requests, None if a session with `model` has them already."""
    match = CALL.fullmatch(split_attachments(trigger.text)[0])
    guide = find_callable(cwd).get(match[1]) if match and trigger.expands else None
    if guide is None or not {"model", "effort"} & set(guide.fields):
        return None
    guide_model = GuideModel.read(guide, model, settings)
    return guide_model if guide_model.differs_from(model, settings.effort) else None


def check_call(trigger: Trigger, cwd: Path) -> tuple[Trigger, list[str]]:
    """Return the trigger, and a line if its first word is the name of a built-in command or nearly that of a guide: it
    is then sent as text."""
    match = CALL.fullmatch(split_attachments(trigger.text)[0])
    if match is None:
        return trigger, []
    name, guides = match[1], find_callable(cwd)
    if name in discover():
        hint = f"; ${name} calls {guides[name].path}" if name in guides else ""
        return replace(trigger, expands=False), [
            f"/{name} is a built-in command that works only in a session; sent as text{hint}"
        ]
    hint = "" if name in guides else suggest_name(f"/{name}", [f"/{guide}" for guide in guides], "")
    return trigger, [f"no command /{name}; sent as text. {hint}"] if hint else []
