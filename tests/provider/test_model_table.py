"""Windows, prices and providers, read from the table that litellm ships."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider.newer_models import READ
from search import some

from nexus_cli.core.errors import NexusError
from nexus_cli.core.request import ModelInfo, PriceTier
from nexus_cli.provider import model_table
from nexus_cli.provider.endpoint import resolve_endpoint
from nexus_cli.provider.model_names import litellm_folder, model_stem
from nexus_cli.provider.model_table import (
    DEFAULT_WINDOW,
    check_model,
    find_of_family,
    model_info,
    name_with_provider,
    newer_models,
    provider_of,
    takes_effort,
)

PROVIDERS = [
    ("openai/gpt-4o", "openai"),
    ("gpt-4o", "openai"),
    ("gpt-99-unheard-of", "openai"),
    ("claude-sonnet-4-5", "anthropic"),
    ("claude-opus-99", "anthropic"),
    ("anthropic/whatever", "anthropic"),
    ("gemini/gemini-2.5-pro", "gemini"),
    ("gemini-2.5-pro", "vertex_ai"),
    ("deepseek-chat", "deepseek"),
    ("ollama/llama3", "ollama_chat"),
    ("openrouter/anthropic/claude-sonnet-4.5", "openrouter"),
    ("unheard-of", ""),
    ("unheard-of/model", ""),
    ("", ""),
]


@pytest.mark.parametrize(("name", "provider"), PROVIDERS)
def test_the_provider_is_known_by_prefix_table_or_family(name: str, provider: str) -> None:
    assert provider_of(name) == provider
    assert model_info(name).provider == provider


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("gpt-99", "openai/gpt-99"),
        ("claude-opus-99", "anthropic/claude-opus-99"),
        ("gpt-4o", "gpt-4o"),
        ("novita/new", "novita/new"),
        ("unheard-of", "unheard-of"),
    ],
)
def test_a_name_that_is_newer_than_the_table_is_sent_with_its_provider(name: str, sent: str) -> None:
    assert name_with_provider(name) == sent


def test_the_endpoint_of_a_new_model_names_its_provider() -> None:
    assert resolve_endpoint("gpt-99", key="x").model == "openai/gpt-99"


def test_window_and_output_are_told_apart() -> None:
    info = model_info("openai/gpt-4o")
    assert (info.window, info.max_output) == (128_000, 16_384)
    assert (info.input_price, info.output_price, info.cache_read_price) == (2.5, 10.0, 1.25)
    assert info.known and info.images and info.cache


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("gpt-5", "openai/gpt-5"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-29991231", "claude-sonnet-4-5"),
        ("openai/gpt-4o-2999-12-31", "gpt-4o"),
        ("ollama_chat/llama3:8b", "ollama/llama3"),
        ("openrouter/anthropic/claude-sonnet-4.5:thinking", "openrouter/anthropic/claude-sonnet-4.5"),
    ],
)
def test_prefixes_dates_and_tags_do_not_hide_a_model(name: str, like: str) -> None:
    one, other = model_info(name), model_info(like)
    assert one.known
    assert (one.window, one.max_output, one.input_price) == (other.window, other.max_output, other.input_price)


@pytest.mark.matrix
@pytest.mark.parametrize("model", ["claude-sonnet-4", "claude-opus-4"])
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "{}-20250514",
        "{}-0",
        "anthropic/{}",
        "anthropic/{}-latest",
        "openrouter/anthropic/{}",
        "vertex_ai/{}",
        "openrouter/anthropic/{}:beta",
        "vertex_ai/{}@20250514",
        "bedrock/{}",
        "bedrock/anthropic.{}-20250514-v1:0",
        "bedrock/eu.anthropic.{}-20250514-v1:0",
        "bedrock/us-east-1/anthropic.{}-20250514-v1:0",
        "azure_ai/{}",
    ],
)
def test_a_window_that_needs_a_beta_header_is_not_promised_under_any_name_of_the_model(form: str, model: str) -> None:
    info = model_info(form.format(model))
    assert (info.window, info.known) == (200_000, True)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("claude-3-5-haiku", "bedrock/anthropic.claude-3-5-haiku-20241022-v1:0"),
        ("claude-3.7-sonnet", "claude-3-7-sonnet-20250219"),
        ("anthropic/claude-haiku-4.5", "claude-haiku-4-5"),
        ("claude-4-opus", "claude-4-opus-20250514"),
        ("gpt-5-latest", "gpt-5"),
        ("openai/ft:gpt-4o-2024-08-06:acme::9xYz", "ft:gpt-4o-2024-08-06"),
        ("ft:gpt-3.5-turbo-0125:acme::abc", "ft:gpt-3.5-turbo-0125"),
        ("gemini/gemini-3-pro", "gemini/gemini-3-pro-preview"),
        ("mistral/mistral-large", "mistral/mistral-large-latest"),
        ("moonshot/kimi-k2", "moonshot/kimi-k2-0905-preview"),
    ],
)
def test_a_short_name_has_the_window_of_the_edition_that_the_table_lists(name: str, like: str) -> None:
    one, other = model_info(name), model_info(like)
    assert one.known and other.known
    assert (one.window, one.max_output) == (other.window, other.max_output)


def test_a_short_name_has_the_price_that_its_provider_takes_for_every_edition_and_no_other() -> None:
    assert (
        model_info("anthropic/claude-sonnet-4").input_price == model_info("claude-sonnet-4-20250514").input_price == 3
    )
    for name in ("gpt-5-ultra", "azure_ai/claude-sonnet-4", "moonshot/kimi-k2-x", "mistral/mistral-large"):
        assert model_info(name).input_price is None
    assert takes_effort("claude-sonnet-4") and not takes_effort("gpt-5-ultra")


@pytest.mark.parametrize(
    "name", ["claude", "openai/gpt", "claude-opus-99", "gpt-99", "mistral/mistral", "novita/new", "gpt-5-ultra"]
)
def test_a_name_without_a_version_that_the_table_knows_is_unknown(name: str) -> None:
    assert not model_info(name).known


@pytest.mark.parametrize("name", ["openai/gpt-oss-120b", "openai/phi-3", "openrouter/x-ai/grok-4-fast"])
def test_a_window_that_another_host_gives_the_same_weights_says_nothing(name: str) -> None:
    assert not model_info(name).known


def test_an_unknown_model_has_the_default_window_and_no_price() -> None:
    info = model_info("openai/unheard-of")
    assert (info.window, info.known, info.input_price, info.max_output) == (DEFAULT_WINDOW, False, None, None)


def test_a_local_server_does_not_get_the_price_of_a_hosted_model() -> None:
    assert not model_info("lm_studio/gpt-4o").known
    assert not model_info("hosted_vllm/gpt-4o").known


@pytest.mark.parametrize("name", ["groq/deepseek-chat", "openrouter/deepseek/deepseek-chat:free", "together_ai/gpt-4o"])
def test_a_provider_does_not_get_the_price_that_another_takes_for_the_model(name: str) -> None:
    info = model_info(name)
    assert info.known and info.window > 0
    assert (info.input_price, info.output_price, info.cache_read_price, info.tiers) == (None, None, None, ())


@pytest.mark.parametrize("name", ["deepseek/deepseek-chat", "cohere/command-r", "vertex_ai/gemini-2.5-pro", "gpt-4o"])
def test_the_price_under_a_bare_name_counts_for_the_provider_that_takes_it(name: str) -> None:
    assert model_info(name).input_price


def test_a_price_of_zero_for_cache_writes_in_the_table_is_none_and_an_explicit_one_counts() -> None:
    assert model_info("deepseek/deepseek-chat").cache_write_price is None
    override = {"deepseek/deepseek-chat": {"cache_write_price": 0}}
    assert model_info("deepseek/deepseek-chat", override).cache_write_price == 0.0


def test_prices_of_long_inputs_hold_from_their_threshold_on() -> None:
    info = model_info("gemini/gemini-2.5-pro")
    short = info.with_tier_prices(200_000)
    assert short == replace(info, tiers=()) == short.with_tier_prices(10**6), "settled for whatever is priced next"
    long = info.with_tier_prices(200_001)
    assert (long.input_price, long.output_price, long.cache_read_price) == (2.5, 15.0, 0.25)
    ours = model_info("gemini/gemini-2.5-pro", {"gemini/gemini-2.5-pro": {"input_price": 1}}).with_tier_prices(200_001)
    assert (ours.input_price, ours.output_price) == (1.0, 15.0)


def test_the_highest_tier_that_is_reached_counts() -> None:
    info = ModelInfo("m", "p", 9, tiers=(PriceTier(10, 1.0, 1.0), PriceTier(20, 2.0, 2.0)))
    assert [info.with_tier_prices(n).input_price for n in (9, 10, 19, 20, 99)] == [None, 1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("name", ["", " ", "/", "openai/", "openai//", "anthropic/ ", "unheard-of", "unheard-of/model"])
def test_a_name_that_cannot_be_asked_is_refused_as_wrong_usage(name: str) -> None:
    with pytest.raises(NexusError) as refused:
        check_model(name)
    assert refused.value.kind == "usage" and refused.value.exit_status == 2


@pytest.mark.parametrize("name", ["gpt-4o", "openai/new", "novita/new", "ollama/x", "abliteration/x", "claude-opus-99"])
def test_a_name_that_may_be_asked_is_let_through(name: str) -> None:
    check_model(name)


def test_overrides_win_field_by_field() -> None:
    overrides = {"openai/mine": {"window": 32_000, "input_price": 1, "images": True}}
    info = model_info("openai/mine", overrides)
    assert (info.window, info.known, info.images) == (32_000, True, True)
    assert (info.input_price, info.output_price) == (1.0, None)
    assert model_info("openai/gpt-4o", {"gpt-4o": {"max_output": 5}}).max_output == 5
    assert not model_info("openai/mine", {"openai/mine": {"input_price": 1}}).known


def test_a_model_whose_images_litellm_would_leave_out_in_silence_takes_none() -> None:
    takes_none = ("deepseek/deepseek-chat", "deepseek/not-in-the-table", "sambanova/DeepSeek-R1")
    assert [model_info(name).blind for name in takes_none] == [True] * 3
    assert not any(
        model_info(name).blind for name in ("deepseek/deepseek-v4-flash-vision-exp", "openai/not-in-the-table")
    )
    assert not model_info(takes_none[0], {takes_none[0]: {"images": True}}).blind


def test_encodings_go_by_family() -> None:
    assert model_info("gpt-4").encoding == model_info("openai/gpt-4-turbo").encoding == "cl100k_base"
    assert {model_info(n).encoding for n in ("gpt-4o", "gpt-4.1", "claude-opus-4-5", "x/y")} == {"o200k_base"}


def test_effort_is_for_models_that_reason() -> None:
    assert takes_effort("openai/gpt-5") and not takes_effort("gpt-4o") and not takes_effort("openai/unheard-of")


@settings(max_examples=20)
@given(st.text(max_size=30))
def test_any_name_gives_an_answer(name: str) -> None:
    assert model_info(name).window > 0


@pytest.mark.matrix
def test_reading_the_table_imports_no_litellm() -> None:
    code = (
        "import sys; from nexus_cli.provider.model_table import model_info; assert model_info('gpt-4o').known;"
        "from nexus_cli.provider import endpoint, litellm_backend, prompt_cache, retry;"
        "print([m for m in ('litellm', 'httpx', 'openai', 'pydantic', 'tiktoken') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.matrix
def test_each_entry_is_that_of_the_parsed_table_in_every_layout() -> None:
    folder = litellm_folder()
    assert folder is not None
    path = folder / model_table.TABLE
    text = path.read_text("utf-8")
    whole = json.loads(text)
    for table in (model_table._Table(text), model_table._Table(json.dumps(whole))):
        assert list(table.list_keys()) == list(whole)
        assert {key: table.get(key) for key in whole} == whole
        assert table.get("unheard-of") is table.get("input_cost_per_token") is None


def test_a_list_of_hundreds_of_models_does_not_search_the_text_for_each() -> None:
    class Text(str):
        searches = 0

        def find(self, *args: Any) -> int:
            Text.searches += 1
            return super().find(*args)

    table = model_table._Table(Text('{\n    "gpt-4o": {\n        "mode": "chat"\n    }\n}'))
    assert table.get("gpt-4o") == {"mode": "chat"} and table.get("team/llama-12") is None
    assert Text.searches == 0


@pytest.mark.matrix
def test_the_keys_of_a_stem_are_among_those_that_contain_it() -> None:
    folder = litellm_folder()
    assert folder is not None
    path = folder / model_table.TABLE
    table = model_table._Table(path.read_text("utf-8"))
    keys = some(list(table.list_keys()), 40)
    assert [key for key in keys if key not in table.list_keys(model_stem(key).removeprefix("ft-"))] == []


@pytest.mark.parametrize("text", ["", "[]", '{\n    "gpt-4o": {\n        "mode": '])
def test_a_table_without_an_entry_says_none(text: str) -> None:
    assert model_table._Table(text).get("gpt-4o") is None


@pytest.mark.parametrize(
    ("word", "present", "found"),
    [
        ("opus", "anthropic/claude-sonnet-4-5", r"anthropic/claude-opus-\d+(-\d{1,2})?"),
        ("Haiku", "claude-sonnet-4-5", r"claude-haiku-\d+(-\d{1,2})?"),
        ("sonnet", "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("opus", "openai/gpt-5", ""),
        ("opus", "bedrock/anthropic.claude-sonnet-4", ""),
        ("nonsense", "anthropic/claude-sonnet-4-5", ""),
    ],
)
def test_a_family_of_claude_is_its_newest_model_or_that_of_the_session(word: str, present: str, found: str) -> None:
    assert re.fullmatch(found, find_of_family(word, present))
    if "opus" in found:
        assert find_of_family(word, present) > "anthropic/claude-opus-4-5", "not the first, and none with a date"


def test_a_model_that_litellm_lacks_has_its_window_prices_and_features() -> None:
    info = model_info("anthropic/claude-opus-5-5")
    assert (info.window, info.max_output, info.input_price, info.cache_read_price) == (1_000_000, 128_000, 4.0, 0.2)
    assert info.known and info.images and info.cache and takes_effort("claude-opus-5-5")
    assert [tier.min_input for tier in model_info("gpt-6-sol").tiers] == [272_001]
    assert model_info("deepseek/deepseek-v4-flash").input_price == 0.3, "a price that changed"


@pytest.mark.parametrize("text", [None, "{"])
def test_without_the_file_of_newer_models_there_is_litellms_table(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_table, "NEWER", tmp_path / "newer.json")
    if text is not None:
        model_table.NEWER.write_text(text)
    for memo in (newer_models, model_table._table):
        monkeypatch.setattr(model_table, memo.__name__, memo.__wrapped__)
    assert model_table._table().get("gpt-4o") and not model_table._table().get("gpt-6-sol")


def test_each_newer_entry_says_what_the_table_does_not() -> None:
    folder = litellm_folder()
    assert folder is not None
    listed = json.loads((folder / model_table.TABLE).read_text("utf-8"))
    not_needed = [key for key, entry in newer_models().items() if entry.items() <= listed.get(key, {}).items()]
    assert not_needed == [], "litellm has them: write the file again with tests/provider/newer_models.py"
    unusable = [
        key
        for key, entry in newer_models().items()
        if not model_table._answers(entry)
        or not entry.get("max_input_tokens")
        or any(field in READ and entry.get(field) is None for field, value in listed.get(key, {}).items() if value)
    ]
    assert unusable == [], "without a window, or without a feature that litellm's own entry has"
