"""What a pasted text must look like to be stored as a provider's key."""

from __future__ import annotations

import pytest
from surroundings import with_variables

from nexus_cli.core.errors import NexusError
from nexus_cli.provider.endpoint import KEY_VARIABLES
from nexus_cli.provider.key_shapes import SHAPES, clean_key, find_provider

GOOD = {
    "openai": "sk-proj-0123456789",
    "anthropic": "sk-ant-0123456789",
    "gemini": "AIza0123456789",
    "mistral": "0123456789abcdef",
    "deepseek": "sk-0123456789",
    "xai": "xai-0123456789",
    "openrouter": "sk-or-0123456789",
    "groq": "gsk_0123456789",
}


def test_every_key_fits_its_own_provider_and_no_other_of_another_form() -> None:
    assert set(GOOD) == set(SHAPES) <= set(KEY_VARIABLES)
    for provider in SHAPES:
        for owner, key in GOOD.items():
            if owner == provider or {owner, provider} == {"openai", "deepseek"}:
                assert clean_key(provider, key) == key
            else:
                with pytest.raises(NexusError) as raised:
                    clean_key(provider, key)
                assert key not in raised.value.line
                named = {"mistral": "begin with", "deepseek": "nexus login openai"}.get(owner, f"nexus login {owner}")
                assert named in raised.value.line, (provider, owner)


@pytest.mark.parametrize(
    "text",
    [
        "sk-0123456789\n",
        "  sk-0123456789 ",
        '"sk-0123456789"',
        "OPENAI_API_KEY=sk-0123456789",
        "export OPENAI_API_KEY='sk-0123456789'",
        "OPENAI_API_KEY: sk-0123456789",
    ],
)
def test_what_surrounds_a_pasted_key_is_taken_off(text: str) -> None:
    assert clean_key("openai", text) == "sk-0123456789"


@pytest.mark.parametrize("text", ["", " ", "sk-", "sk-01 23456789", "sk-0123456é789", "sk-0123\x00456", "no-such-form"])
def test_what_cannot_be_a_key_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(NexusError) as raised:
        clean_key("openai", text)
    assert raised.value.exit_status == 2 and (len(text) < 4 or text not in raised.value.line)


def test_an_address_of_ones_own_takes_keys_of_any_form() -> None:
    assert with_variables({"OPENAI_API_BASE": "http://127.0.0.1:4000"}, clean_key, "openai", "any-key-of-a-gateway")


@pytest.mark.parametrize(
    ("text", "provider"),
    [("OpenAI", "openai"), (" GOOGLE_API_KEY", "gemini"), ("Google Gemini", "gemini"), ("claude", "anthropic")],
)
def test_a_provider_is_found_by_any_of_its_names(text: str, provider: str) -> None:
    assert find_provider(text) == provider
