"""Choose the model: `--model` > `NEXUS_MODEL` > settings > the only key in the environment, else the only stored one.

Code is never sent to a provider that the person did not choose: local servers are only suggested. The model's existence
is not checked, because only its provider knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.available_models import keys_to_choose_from, resolve_alias
from nexus_cli.provider.local_servers import LocalServer, local_servers


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A chosen model; `announce` is a line for stderr if the person did not name the model, else ""."""

    model: str
    announce: str = ""


def choose_model(
    flag: str,
    environ: Mapping[str, str],
    settings: Settings,
    *,
    resumes: bool = False,
    servers: Callable[[], Sequence[LocalServer]] = local_servers,
) -> ModelChoice:
    """Return the model of this run, "" if it `resumes` and names none; raise `NexusError("config", ...)` if unclear."""
    named = flag.strip() or environ.get("NEXUS_MODEL", "").strip()
    if not named and resumes:
        return ModelChoice("")
    named = named or settings.model.strip()
    if named:
        return ModelChoice(resolve_alias(named, settings))
    present = keys_to_choose_from(environ, settings)
    if len(present) == 1:
        ((variable, model),) = present.items()
        model = resolve_alias(model, settings)
        why = "set" if environ.get(variable, "").strip() else "stored"
        return ModelChoice(model, f"Using {model}, because {variable} is {why}; to use another: --model NAME")
    if present:
        usable = next(iter(present.values()))
        found = ", ".join(f"{variable} ({model})" for variable, model in present.items())
        raise NexusError(
            "config",
            "no model",
            f"several keys are set: {found}",
            f"Choose a model: --model {usable}, NEXUS_MODEL=..., or nexus config set model ...",
        )
    found_servers = servers()
    if found_servers:
        where = ", ".join(f"{server.name} at {server.url}" for server in found_servers)
        raise NexusError(
            "config",
            "no model",
            f"no key is set, but a local server answered: {where}",
            f"Use it: --model {found_servers[0].prefix.rstrip('/')}/NAME, or nexus config set model ...",
        )
    first = next(iter(settings.default_models), "OPENAI_API_KEY")
    raise NexusError(
        "config",
        "no model",
        "none is configured, no API key is set, and no local server was reached",
        f"`nexus login PROVIDER` stores a key (or export {first}=...); or name a model (--model NAME, NEXUS_MODEL), or "
        "start a local server such as Ollama; `nexus doctor` shows what is missing",
    )
