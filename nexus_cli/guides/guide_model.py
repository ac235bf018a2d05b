"""Read the model and effort that a guide asks for in its front matter. They hold for the turn that calls it."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.config.settings import Settings
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.guides.skills import Skill
from nexus_cli.provider.available_models import resolve_for_worker
from nexus_cli.provider.call_arguments import effort_notice, sent_effort
from nexus_cli.provider.endpoint import resolve_endpoint
from nexus_cli.provider.model_table import check_model, find_of_family

SESSION_MODEL = ("", "inherit", "default")
"""Words for the session's own model."""


@dataclass(frozen=True, slots=True)
class GuideModel:
    """Hold the model and effort of a guide."""

    model: str
    """A litellm name; "" for the session's."""
    effort: str
    """"" for the session's."""
    problems: tuple[str, ...]
    """What of it cannot be applied, each with the reason: `model opus: ...`."""

    @classmethod
    def read(cls, guide: Skill, present: str, settings: Settings) -> GuideModel:
        """Read the model and effort of a guide, beside the model `present`. Blocks: a keyring may have to be opened."""
        model_name, effort = guide.fields.get("model", "").strip(), guide.fields.get("effort", "").strip().lower()
        model, problems = "", []
        if model_name.casefold() not in SESSION_MODEL:
            try:
                is_own = model_name in settings.alias
                resolved = resolve_for_worker(
                    model_name if is_own else find_of_family(model_name, present) or model_name, present, settings
                )
                check_model(resolved)
                resolve_endpoint(resolved)
                model = resolved
            except NexusError as error:
                alias_hint = (
                    f'; to define it, set alias.{model_name} = "MODEL" in config.toml' if error.kind == "usage" else ""
                )
                problems.append(one_line(f"model {model_name}: {error.why[:200] or error.message}{alias_hint}"))
        if effort and effort not in (DEFAULT_EFFORT, *EFFORTS):
            problems.append(one_line(f"effort {effort[:20]}: must be one of {', '.join(EFFORTS)}"))
            effort = ""
        elif notice := effort_notice(model or present, effort):
            problems.append(notice)
            effort = ""
        return cls(model, effort, tuple(problems))

    def differs_from(self, model: str, effort: str) -> bool:
        """Return True if a session with this model and effort would have to change for it."""
        own_model = self.model or model
        return own_model != model or bool(self.effort and sent_effort(own_model, self.effort) != effort)

    def __str__(self) -> str:
        """Return `model M, effort E`."""
        parts = (self.model and f"model {self.model}", self.effort and f"effort {self.effort}")
        return ", ".join(filter(None, parts))
