"""Windows, prices and provider names of models, from the table that litellm ships, without importing litellm.

The table has about 3,000 entries. It is read once per name, and only the entry is parsed and kept. The table's prices
are dollars per token, ours dollars per million tokens; `usage` computes costs from them. Entries of models that are
newer than the supported litellm come from a file of ours in the same form (`newer_models`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.request import ModelInfo, PriceTier
from nexus_cli.provider.model_names import (
    LOCAL,
    SUBSCRIPTIONS,
    litellm_folder,
    model_stem,
    refuse_key,
    split_key_name,
    split_model_name,
)

FIELDS = {
    "input_price": "input_cost_per_token",
    "output_price": "output_cost_per_token",
    "cache_read_price": "cache_read_input_token_cost",
    "cache_write_price": "cache_creation_input_token_cost",
}
"""By our name of a price: the table's name."""
ABOVE = re.compile(r"input_cost_per_token_above_(\d+(?:\.\d+)?)(k?)_tokens$")
CLAUDE_FAMILIES = ("haiku", "sonnet", "opus")
"""Words of Claude's files for the newest model of a family."""
FROM_THRESHOLD_ON = frozenset({"xai"})
"""Providers whose higher price begins at the threshold itself; for others it begins one token above."""
TEXT_ALONE = ("deepseek", "sambanova")
"""Providers to which litellm sends messages without their images, but for models that its table says take some."""

Prices = dict[str, float | None]
Overrides = Mapping[str, JsonObject]
"""The settings of `[models]`, which were checked: facts by the names of `ModelInfo`."""


def _million(entry: JsonObject, key: str) -> float | None:
    value = entry.get(key)
    return round(float(value) * 1e6, 6) if isinstance(value, int | float) else None


def _read(entry: JsonObject) -> Prices:
    prices = {ours: _million(entry, theirs) for ours, theirs in FIELDS.items()}
    # A price of 0.0 for writes beside one for input means that writing has no separate price (DeepSeek, Z.AI).
    if prices["input_price"] and not prices["cache_write_price"]:
        prices["cache_write_price"] = None
    return prices


def base_prices(entry: JsonObject) -> Prices:
    """Return the four prices of `entry`, by the names of `ModelInfo`; None for those that the table lacks."""
    return _read({**next(iter(entry.get("tiered_pricing") or ()), {}), **entry})


def _tiers(entry: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    """Yield the least input of each tier, and its prices by the names of the table, in one of its two forms."""
    for tier in entry.get("tiered_pricing") or ():
        yield int(tier["range"][0]) + 1, tier
    for key, value in entry.items():
        if (above := ABOVE.match(key)) and value is not None:
            least = int(float(above[1]) * (1000 if above[2] else 1))
            least += entry.get("litellm_provider") not in FROM_THRESHOLD_ON
            suffix = key.removeprefix(FIELDS["input_price"])
            yield least, {theirs: entry.get(theirs + suffix) for theirs in FIELDS.values()}


def price_tiers(entry: JsonObject) -> tuple[PriceTier, ...]:
    """Return the prices of `entry` for long inputs, by increasing length; one that a tier does not name is the same."""
    base, tiers = base_prices(entry), []
    for least, prices in _tiers(entry):
        tier_prices = {name: price for name, price in _read(prices).items() if price is not None}
        tiers.append(PriceTier(least, **{**base, **tier_prices}))
    return tuple(sorted(tiers, key=lambda tier: tier.min_input))


FIRST_LINES = "{\n    "
KEYS = re.compile(r'\n    "([^"\\]+)": ')
DEFAULT_WINDOW = 128_000
HOW_TO_NAME = "`nexus model list` lists usable models; name any other model as PROVIDER/MODEL"
NO_TOOLS_HINT = "Choose another model, or start with --no-tools"
TABLE = "model_prices_and_context_window_backup.json"
NEWER = Path(__file__).with_name("newer_models.json")
CLAUDE_TO_4_5 = re.compile(r"(?:^|-)claude-(?:[34]|(?:sonnet|opus|haiku)-4)(?:-[0-5])?(?:-(?:sonnet|opus|haiku))?$")
CLAUDE_WINDOW = 200_000
"""The window of Claude up to 4.5. The table has a larger one for some models, which needs a beta header that we do not
send."""
DATE = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$")
FAMILIES = (("vertex_ai", "vertex_ai"), ("bedrock_converse", "bedrock"), ("fireworks_ai", "fireworks_ai"))
"""Prefixes of the table's provider names that differ from ours."""
SAME_PRICES = MappingProxyType(
    {
        "ai21_chat": "ai21",
        "azure_text": "azure",
        "cohere_chat": "cohere",
        "ollama_chat": "ollama",
        "text-completion-codestral": "codestral",
        "text-completion-openai": "openai",
        "vertex_ai_beta": "vertex_ai",
    }
)
"""Names under which a provider charges the same prices."""
SAME_PRICE_TAGS = frozenset({"thinking"})
"""Tags after a model's colon that do not change its price; a number is a version."""
OLD_ENCODING = re.compile(r"(^|/)(gpt-4(?!o|\.)|gpt-3\.5|text-)")


class _Table:
    """The entries of the table, each parsed when it is asked for: all of them take 20 ms."""

    def __init__(self, text: str, newer: Mapping[str, JsonObject] = MappingProxyType({})) -> None:
        """Raises `ValueError` unless `text` is JSON. It is litellm's file, with one entry or field to a line; a text
        in another layout is brought into this one. Entries of `newer` replace those of `text`."""
        has_layout = text.startswith(f'{FIRST_LINES}"')
        self._text = text if has_layout else json.dumps(json.loads(text or "{}"), indent=4)
        self._newer = newer
        self._decoder = json.JSONDecoder()

    def get(self, key: str) -> Any:
        """Return the entry at `key`, None if there is none or it is broken."""
        if key in self._newer:
            return self._newer[key]
        try:
            return self._decoder.raw_decode(self._text, self._places[key])[0]
        except (KeyError, ValueError):
            return None

    def list_keys(self, part: str = "") -> Iterator[str]:
        """Yield the keys that contain `part`, which is in lower case, with a dash for each dot."""
        return (key for key, plain in self._keys if part in plain)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The places in the text at which the entries begin: a gateway may list hundreds of models."""
        return {match[1]: match.end() for match in KEYS.finditer(self._text)}

    @cached_property
    def _keys(self) -> list[tuple[str, str]]:
        """Each key, and the form in which `list_keys` compares it."""
        return [(key, key.lower().replace(".", "-")) for key in {**self._places, **self._newer}]


@lru_cache(maxsize=1)
def newer_models() -> Mapping[str, JsonObject]:
    """Return the entries of models that the supported litellm lacks or prices otherwise, in the form of its table; none
    if the file is missing or damaged, as of a table that is."""
    try:
        entries: Mapping[str, JsonObject] = json.loads(NEWER.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return entries


@lru_cache(maxsize=1)
def _table() -> _Table:
    folder = litellm_folder()
    try:
        return _Table((folder / TABLE).read_text("utf-8") if folder else "", newer_models())
    except (OSError, ValueError):
        return _Table("", newer_models())


def _candidates(name: str) -> Iterator[str]:
    """Yield the possible keys of `name`, best first; the date suffix goes last."""
    prefix, model_name = split_model_name(name)
    stems = [name]
    if prefix in ("ollama", "ollama_chat"):
        stems += [f"ollama/{model_name}", f"ollama/{model_name.partition(':')[0]}"]
    elif prefix:
        stems += [model_name, model_name.partition(":")[0], f"{prefix}/{model_name.partition(':')[0]}"]
    if prefix == "openrouter":
        upstream = model_name.partition("/")[2].partition(":")[0]
        stems += [upstream, upstream.replace(".", "-")]
    yield from stems
    for stem in stems:
        if DATE.search(stem):
            yield DATE.sub("", stem)


def _own_provider_name(listed: str) -> str:
    """Return the provider's own name for an entry's `litellm_provider`."""
    return next((family for start, family in FAMILIES if listed.startswith(start)), listed)


def _bills(entry: JsonObject, key: str, name: str) -> bool:
    """True if `entry` (at `key` of the table) has the prices of `name`: same provider, same variant."""
    prefix, tag = split_model_name(name)[0], name.rpartition("/")[2].partition(":")[2]
    house = _own_provider_name(str(entry.get("litellm_provider", "")))
    if prefix and SAME_PRICES.get(house, house) != SAME_PRICES.get(prefix, prefix):
        return False
    return prefix in LOCAL or not tag or f":{tag}" in key or tag in SAME_PRICE_TAGS or tag.isdigit()


def _answers(entry: object) -> TypeGuard[JsonObject]:
    """True if the entry is a model that generates text."""
    return isinstance(entry, dict) and entry.get("mode") in ("chat", "responses", "completion")


@lru_cache(maxsize=64)
def _entry(name: str) -> JsonObject | None:
    """Return the entry for `name`: preferably one with its prices, else one of the same model at another provider,
    without prices."""
    table, name = _table(), split_key_name(name)[1]
    is_local = split_model_name(name)[0] in LOCAL
    elsewhere = None
    for key in _candidates(name):
        entry = table.get(key)
        if not _answers(entry) or (is_local and not key.startswith("ollama/")):
            continue
        candidate = MappingProxyType({**entry, "_key": key, "_elsewhere": not _bills(entry, key, name)})
        if not candidate["_elsewhere"]:
            return candidate
        elsewhere = elsewhere or candidate
    return elsewhere


@lru_cache(maxsize=64)
def _relative(name: str) -> JsonObject | None:
    """Return the newest entry of another edition of an unlisted model: the provider's own, else the maker's (a bare
    key). Entries of other hosts of the same weights do not count.

    It has prices if its provider charges the same for all editions.
    """
    stem = model_stem(name)
    if split_model_name(name)[0] in LOCAL or not stem:
        return None
    charged = f"{provider_of(name)}/{name.rpartition('/')[2]}"
    table = _table()
    alike = (key for key in table.list_keys(stem.removeprefix("ft-")) if model_stem(key) == stem)
    every = {key: entry for key in alike if _answers(entry := table.get(key))}
    own_models = [key for key in every if _bills(every[key], key, charged)]
    makers = [key for key in own_models or every if "/" not in key] or own_models
    if not makers:
        return None
    key = max(makers, key=lambda maker: ("latest" in maker, maker))
    has_one_price = len({str(base_prices(every[model])) for model in own_models}) == 1
    return MappingProxyType({**every[key], "_key": key, "_elsewhere": not has_one_price})


def provider_of(name: str) -> str:
    """Return litellm's name of the provider of `name`; "" if neither prefix nor table gives it.

    A prefix decides. A bare name is looked up in the table; a name that the table does not have yet (`gpt-9`,
    `claude-opus-9`) gets the provider of its family. `ollama/` counts as `ollama_chat`, which is the provider called.
    """
    prefix, bare = split_model_name(name)
    if prefix:
        return "ollama_chat" if prefix == "ollama" else prefix
    entry = _entry(name)
    if entry is not None:
        return _own_provider_name(str(entry.get("litellm_provider", "")))
    if re.match(r"(gpt-|chatgpt-|o\d)", bare):
        return "openai"
    return "anthropic" if bare.startswith("claude") else ""


def name_with_provider(name: str) -> str:
    """Return `name`, with its provider in front if litellm would not find it: a bare name that the table lacks."""
    provider = provider_of(name)
    return name if split_model_name(name)[0] or not provider or _table().get(name) else f"{provider}/{name}"


def takes_effort(name: str) -> bool:
    """True if the table lists the model as reasoning, so that an effort applies to it."""
    entry = _entry(name) or _relative(name)
    return bool(entry and entry.get("supports_reasoning") and model_stem(str(entry["_key"])) == model_stem(name))


def has_feature(name: str, feature: str) -> bool:
    """True if the table lists `feature` (such as `supports_response_schema`) for the model at its own provider."""
    entry = _entry(name)
    return bool(entry and entry.get(feature) and not entry["_elsewhere"])


def encoding_of(name: str) -> str:
    """Return the tiktoken encoding that fits a model best: `cl100k_base` for older GPTs, else `o200k_base`."""
    return "cl100k_base" if OLD_ENCODING.search(name) else "o200k_base"


def _number(entry: JsonObject, *keys: str) -> int | None:
    return next((int(entry[k]) for k in keys if isinstance(entry.get(k), int | float) and entry[k] > 0), None)


def _from_table(name: str) -> ModelInfo:
    entry = _entry(name) or _relative(name) or {}
    provider = provider_of(name)
    # `max_tokens` is the output cap if `max_output_tokens` is there too; alone it is the older name of the window.
    window = _number(entry, "max_input_tokens", "max_tokens") or DEFAULT_WINDOW
    info = ModelInfo(
        name=name,
        provider=provider,
        window=min(window, CLAUDE_WINDOW) if CLAUDE_TO_4_5.search(model_stem(name)) else window,
        max_output=_number(entry, "max_output_tokens"),
        known=bool(entry),
        images=bool(entry.get("supports_vision")),
        cache=bool(entry.get("supports_prompt_caching")),
        encoding=encoding_of(name),
        covered=provider in SUBSCRIPTIONS,
    )
    if not entry or entry["_elsewhere"] or info.covered:
        return info
    prices: JsonObject = base_prices(entry)
    return replace(info, tiers=price_tiers(entry), **prices)


def model_info(name: str, overrides: Overrides = MappingProxyType({})) -> ModelInfo:
    """Return the known facts of `name`; `overrides` (settings, by model name) replace single fields.

    Keys of an override: `window`, `max_output` (tokens), `input_price`, `output_price`, `cache_read_price`,
    `cache_write_price` (dollars per million tokens), `images`, `tools`. An unknown model has a window of 128,000, no
    prices and `known` False; an override of the window makes it known. Never raises for a name.
    """
    info = _from_table(name)
    key, override = find_override(name, overrides)
    prices: JsonDict = {name: float(override[name]) for name in FIELDS if name in override}
    fields: JsonDict = {**override, **prices}
    if "window" in override:
        fields |= {"known": True, "window_key": _window_setting_key(key)}
    fields["covered"] = info.covered and "input_price" not in override
    fields["cache"] = info.cache or "cache_read_price" in override
    fields["blind"] = override.get("images", info.images or info.provider not in TEXT_ALONE) is False
    # A given price holds for every input length.
    fields["tiers"] = tuple(replace(tier, **prices) for tier in info.tiers)
    return replace(info, **fields)


def find_override(name: str, overrides: Overrides) -> tuple[str, JsonObject]:
    """Return the most specific name under which the settings have `name`, and the facts there: {} for none."""
    names = name, split_key_name(name)[1], split_model_name(name)[1]
    key = next((candidate for candidate in names if overrides.get(candidate)), name)
    return key, overrides.get(key) or {}


def _window_setting_key(name: str) -> str:
    return f'models."{name}".window'


def window_command(info: ModelInfo, window: int) -> str:
    return f"nexus config set '{info.window_key or _window_setting_key(split_key_name(info.name)[1])}' {window}"


def describe_unknown_window(info: ModelInfo, window: int) -> str:
    """Return the sentence about a window that nobody states, with the command that sets it."""
    assumed = f"unknown context window for {info.name}; assuming {window:,} tokens"
    return f"{assumed}. To set it: {window_command(info, window)}"


def price_command(name: str) -> str:
    """Return the command that sets the price of a model's input; `output_price` is set likewise."""
    return f"nexus config set 'models.\"{split_key_name(name)[1]}\".input_price' DOLLARS_PER_MILLION"


def is_covered(name: str) -> bool:
    """True if a subscription pays for requests to the model: their dollars are neither known nor counted."""
    return provider_of(name) in SUBSCRIPTIONS


def subscription_models(provider: str) -> list[str]:
    """Return the models of a subscription that the table lists."""
    table = _table()
    listed = (key for key in table.list_keys(f"{provider}/") if key.startswith(f"{provider}/"))
    return sorted(key for key in listed if _answers(entry := table.get(key)) and entry["mode"] != "completion")


def find_of_family(family: str, present: str) -> str:
    """Return the model that Claude means by `haiku`, `sonnet` or `opus`: `present` if it is one of the family, else the
    newest that the table lists, "" for any other word or a model `present` of another provider."""
    prefix, bare = split_model_name(split_key_name(present)[1])
    if family.casefold() not in CLAUDE_FAMILIES or provider_of(present) != "anthropic":
        return ""
    if family.casefold() in bare:
        return present
    form = re.compile(rf"claude-{family.casefold()}-(\d+)(?:-(\d{{1,2}}))?")
    listed = filter(None, map(form.fullmatch, _table().list_keys(f"claude-{family.casefold()}-")))
    newest = max(listed, key=lambda match: (int(match[1]), int(match[2] or 0)), default=None)
    return "/".join(filter(None, (prefix, newest[0]))) if newest else ""


def describe_unknown(name: str) -> str:
    """Return the reason that `name` cannot be used, for which `provider_of` returns ""."""
    prefix, slash, _ = name.partition("/")
    return f"unknown provider {prefix!r} in {name!r}" if slash else f"{name!r} is not from a known provider"


def check_model(name: str) -> None:
    """Raise `UsageError` for a name without a known provider or a model, or with a key."""
    refuse_key(name)
    provider, model_name = provider_of(name), split_model_name(name)[1].strip()
    if not provider or not model_name.strip("/"):
        why = describe_unknown(name) if not provider else f"{name!r} has no model name"
        raise UsageError("unknown model", why, HOW_TO_NAME)
