"""The providers whose keys `nexus login` stores: the shape of a key, and the page to create one.

Only the shape is checked, to catch a wrong paste. Only the provider knows if a key is valid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nexus_cli.core.errors import UsageError
from nexus_cli.core.redact_secrets import SHORTEST
from nexus_cli.provider.endpoint import KEY_VARIABLES, address_from_env
from nexus_cli.provider.model_names import KEY_NAME, SUBSCRIPTIONS, provider_prefixes


@dataclass(frozen=True, slots=True)
class KeyShape:
    """The keys of one provider."""

    title: str
    """The provider's name for people."""
    starts: tuple[str, ...]
    """Prefixes of a key; none if they vary."""
    page: str
    """Address at which a person creates one."""


SHAPES: Mapping[str, KeyShape] = {
    "anthropic": KeyShape("Anthropic", ("sk-ant-",), "console.anthropic.com/settings/keys"),
    "openai": KeyShape("OpenAI", ("sk-",), "platform.openai.com/api-keys"),
    "gemini": KeyShape("Google Gemini", ("AIza", "AQ."), "aistudio.google.com/apikey"),
    "mistral": KeyShape("Mistral", (), "console.mistral.ai/api-keys"),
    "deepseek": KeyShape("DeepSeek", ("sk-",), "platform.deepseek.com/api_keys"),
    "xai": KeyShape("xAI", ("xai-",), "console.x.ai"),
    "openrouter": KeyShape("OpenRouter", ("sk-or-",), "openrouter.ai/keys"),
    "groq": KeyShape("Groq", ("gsk_",), "console.groq.com/keys"),
}
LONGEST_NAME = 16
"""Most characters of an unknown provider in an error; a longer word may be a key, and is not shown."""
OTHER_NAMES = {"google": "gemini", "claude": "anthropic", "grok": "xai"}
LOGIN_NAMES = (*SHAPES, *(name.replace("_", "-") for name in SUBSCRIPTIONS))
"""What `nexus login` takes: providers of keys, then subscriptions."""
_ASSIGNED = re.compile(r"(?:export\s+)?[A-Z][A-Z0-9_]*\s*[=:]\s*(\S.*)")
"""A line of a shell script or a `.env` file."""


def find_provider(text: str) -> str:
    """Return the provider that `text` names, in litellm's form, a person's, or as its key variable; raise
    `UsageError` if there is none."""
    typed = text.strip()
    word = typed.casefold()
    for provider, shape in SHAPES.items():
        names = (provider, shape.title, *KEY_VARIABLES[provider])
        if word in (name.casefold() for name in names) or OTHER_NAMES.get(word) == provider:
            return provider
    hint = f"Known providers: {', '.join(LOGIN_NAMES)}. "
    hint += "For other providers, set the environment variable that litellm reads for the key"
    if len(typed) > LONGEST_NAME:
        raise UsageError("unknown provider", "expected the name of a provider, not a key", hint)
    raise UsageError(f'unknown provider "{typed}"', "nexus cannot store a key for this provider", hint)


def find_subscription(text: str) -> str:
    """Return the subscription that `text` names, in litellm's form or a person's, "" if it names none."""
    word = text.strip().casefold().replace("-", "_").removesuffix("_login")
    return word if word in SUBSCRIPTIONS else {"copilot": "github_copilot"}.get(word, "")


def check_key_name(name: str) -> None:
    """Raise `UsageError` for a `name` that no key of several can have; "" is that of the usual key."""
    if name and (not KEY_NAME.fullmatch(name) or name in provider_prefixes()):
        why = "a name has at most 32 characters (a-z, digits, - and _), begins with a letter, and is not a provider"
        raise UsageError("invalid key name", why, "Example: --as work")


def clean_key(provider: str, text: str) -> str:
    """Return the key in a pasted `text`, without blanks, quotes and `NAME=` around it; raise `UsageError`
    if it cannot be a key of `provider`.

    If the environment has another address for the provider, a key may have any prefix. No error quotes the text.
    """
    shape, key = SHAPES[provider], text.strip()
    if assigned := _ASSIGNED.fullmatch(key):
        key = assigned[1]
    if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'":
        key = key[1:-1]
    what, again = f"{shape.title} key", f"Copy it again from {shape.page}"
    why = f"the key is too short (length: {len(key)})" if len(key) < SHORTEST else ""
    if not (key.isascii() and key.isprintable()) or " " in key:
        why = "the key contains spaces or invalid characters"
    if why:
        raise UsageError(what, why if key else "the key is empty", again)
    if address_from_env(f"{provider}/"):
        return key
    key_start = max(
        (start for key_shape in SHAPES.values() for start in key_shape.starts if key.startswith(start)),
        key=len,
        default="",
    )
    if key_start in shape.starts or not (key_start or shape.starts):
        return key
    if owner := next((name for name, key_shape in SHAPES.items() if key_start in key_shape.starts), ""):
        raise UsageError(what, f"this looks like a key for {SHAPES[owner].title}", f"To store it: nexus login {owner}")
    raise UsageError(what, f"the key must begin with {' or '.join(shape.starts)}", again)
