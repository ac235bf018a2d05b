"""Model names: an optional provider before the first slash, then the provider's own name for the model.

`work:openai/gpt-5` is `openai/gpt-5`, paid with the stored key named `work`.

The known providers are those of the installed litellm, read from its files without importing it. `model_table` looks
up bare names.
"""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from nexus_cli.core.errors import UsageError
from nexus_cli.core.redact_secrets import KEY_LIKE

LISTED = ("types/utils.py", "class LlmProviders(")
"""The file and the class that list litellm's providers, one `NAME = "prefix"` per line."""
MEMBER = re.compile(r'^    [A-Z][A-Z0-9_]* = "([^"\n]+)"', re.MULTILINE)
MORE = "llms/openai_like/providers.json"
"""Providers that litellm serves by configuration alone: the keys of an object."""
LOCAL = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm"})
"""Local servers: they need no key."""
WELL_KNOWN = LOCAL | {"anthropic", "deepseek", "gemini", "groq", "mistral", "openai", "openrouter", "xai"}
"""Providers known even if litellm's files have another form."""

SUBSCRIPTIONS = {"github_copilot": "GitHub Copilot", "chatgpt": "ChatGPT"}
"""Providers that a subscription pays, reached by device login instead of a key; with their names for people."""

KEY_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""A person's name for one of several keys of a provider."""
VENDOR = re.compile(r"^(?:[a-z0-9-]*[a-z]\.)+(?=[a-z])")
"""Bedrock's prefix of a model: region and maker, `us.anthropic.`."""
EDITION = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{4}|latest|default|preview|exp|0)(?:-v\d+)?$")
"""Suffix of a model's edition: a date, `-latest`, `@default`, Anthropic's `-0`, then Bedrock's `-v1`."""


def litellm_folder() -> Path | None:
    """Return the folder of litellm, or None if it is not installed."""
    try:
        spec = importlib.util.find_spec("litellm")
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


@lru_cache(maxsize=1)
def provider_prefixes() -> frozenset[str]:
    """Return the names that may precede the first slash of a model's name; any other text there is part of the name."""
    prefixes = set(WELL_KNOWN)
    if folder := litellm_folder():
        with suppress(OSError, ValueError):
            source = (folder / LISTED[0]).read_text(encoding="utf-8").partition(LISTED[1])[2]
            prefixes.update(MEMBER.findall(re.split(r"\n(?=\S)", source, maxsplit=1)[0]))
            prefixes.update(json.loads((folder / MORE).read_bytes()))
    return frozenset(prefixes)


def refuse_key(name: str) -> None:
    """Raise `UsageError`, which does not quote `name`, if a model's name contains an API key: it would be printed,
    recorded and sent."""
    match = KEY_LIKE.search(name)
    if match and re.search(r"[^\W_]{16,}|://", match[0]):  # `global-gpt-4o-mini` is words
        hint = "Name a model as PROVIDER/MODEL; `nexus login PROVIDER` stores a key"
        raise UsageError("model name", "it contains an API key", hint)


def split_key_name(name: str) -> tuple[str, str]:
    """Return (name of the key or "", model) of `name`. Only a model with its provider can have one, so that
    `ft:gpt-4o` and `ollama/qwen3:8b` are models."""
    key, _, model = name.partition(":")
    prefix, slash, _ = model.partition("/")
    has_key = slash and KEY_NAME.fullmatch(key) and prefix in provider_prefixes()
    return (key, model) if has_key else ("", name)


def split_model_name(name: str) -> tuple[str, str]:
    """Return (provider prefix or "", rest) of `name`, without the name of a key."""
    model = split_key_name(name)[1]
    prefix, slash, model_name = model.partition("/")
    return (prefix, model_name) if slash and prefix in provider_prefixes() else ("", model)


def model_stem(name: str) -> str:
    """Return the model of which `name` is an edition: no provider, maker, region, tag, date; `.` becomes `-`."""
    model = VENDOR.sub("", name.lower().rpartition("/")[2])
    tuned = "ft-" if model.startswith("ft:") else ""
    model = tuned + model.removeprefix("ft:").partition(":")[0].replace(".", "-")
    while (shorter := EDITION.sub("", model)) != model and shorter:
        model = shorter
    return model
