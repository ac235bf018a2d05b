"""Choose the model: `--model` > `NEXUS_MODEL` > settings > the only key in the environment, else the only stored one.

Code is never sent to a provider that the person did not choose: local servers are only suggested. The model's existence
is not checked, because only its provider knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.available_models import keys_to_choose_from, named_model, resolve_alias
from nexus_cli.provider.local_servers import LocalServer, local_servers
from nexus_cli.provider.model_names import refuse_key


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A chosen model; `announce` is a line for stderr if the person did not name the model, else ""."""

    model: str
    announce: str = ""


def choose_model(
    flag: str,
    settings: Settings,
    *,
    resumes: bool = False,
    servers: Callable[[], Sequence[LocalServer]] = local_servers,
) -> ModelChoice:
    """Return the model of this run, "" if it `resumes` and names none; raise `NexusError` if unclear or a key."""
    if resumes and not flag.strip() and not os.environ.get("NEXUS_MODEL", "").strip():
        return ModelChoice("")
    if model := resolve_alias(flag, settings) or named_model(settings):
        refuse_key(model)
        return ModelChoice(model)
    present = keys_to_choose_from(settings)
    first = next(iter(present.items() or settings.default_models.items()), ("OPENAI_API_KEY", ""))
    if len(present) == 1:
        variable, model = first
        why = "set" if os.environ.get(variable, "").strip() else "stored"
        return ModelChoice(model, f"Using {model}, because {variable} is {why}; to use another: --model NAME")
    if present:
        available = ", ".join(f"{variable} ({model})" for variable, model in present.items())
        why = f"several keys are available: {available}"
        hint = f"Choose a model: --model {first[1]}, NEXUS_MODEL=..., or nexus config set model ..."
    elif reached := servers():
        available = ", ".join(f"{server.name} at {server.url}" for server in reached)
        why = f"no key is set, but a local server answered: {available}"
        hint = f"Use this server: --model {reached[0].prefix.rstrip('/')}/NAME, or nexus config set model ..."
    else:
        why = "no default model or API key is set, and no local server was reached"
        hint = (
            f"Store a key with `nexus login PROVIDER` (or export {first[0]}=...), choose a model (--model NAME, "
            "NEXUS_MODEL), or start a local server such as Ollama; `nexus doctor` shows what is missing"
        )
    raise NexusError("config", "no model", why, hint)
