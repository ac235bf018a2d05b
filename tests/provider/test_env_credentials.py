"""Keys and addresses that the environment has: what cannot be one is told by its variable, before anything is sent."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider.talk import hear, request
from server.play import ScriptedServer
from surroundings import with_variables

from nexus_cli.config.paths import places
from nexus_cli.core.errors import ProviderError
from nexus_cli.provider.endpoint import resolve_endpoint
from nexus_cli.provider.litellm_backend import LitellmBackend

KEYED = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GOOGLE_API_KEY",
    "hosted_vllm": "HOSTED_VLLM_API_KEY",
}
BLANKS = st.text(" \t\r\n", min_size=1)
TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@pytest.mark.matrix
@given(st.sampled_from(sorted(KEYED)), BLANKS, TEXT, BLANKS)
def test_what_surrounds_a_key_is_taken_off(provider: str, before: str, key: str, after: str) -> None:
    assert with_variables({KEYED[provider]: f"{before}{key}{after}"}, resolve_endpoint, f"{provider}/m").key == key


@given(st.sampled_from(sorted(KEYED)), TEXT, st.sampled_from(["\n", "\r\n", "é", "\x7f", "\u2028"]))
def test_a_key_that_cannot_be_sent_is_refused_by_its_name_alone(provider: str, key: str, bad: str) -> None:
    for value in (f"secret-{key}{bad}{key}", " ", "\n"):
        with pytest.raises(ProviderError) as raised:
            with_variables({KEYED[provider]: value}, resolve_endpoint, f"{provider}/m")
        assert raised.value.kind == "auth" and raised.value.exit_status == 2 and not raised.value.transient
        assert KEYED[provider] in raised.value.line and "secret-" not in raised.value.line


@pytest.mark.parametrize("bad", ["\n", "é", "\x00"])
def test_a_stored_key_that_cannot_be_sent_is_refused_by_its_name_alone(bad: str) -> None:
    places().keys.mkdir(parents=True)
    (places().keys / "OPENAI_API_KEY").write_text(f"secret-one{bad}secret-two\n")
    with pytest.raises(ProviderError) as raised:
        resolve_endpoint("openai/m")
    assert raised.value.kind == "auth" and "OPENAI_API_KEY" in raised.value.line and "stored" in raised.value.line
    assert "secret-" not in raised.value.line
    assert (
        with_variables({"OPENAI_API_KEY": "sk-in-the-environment"}, resolve_endpoint, "openai/m").key
        == "sk-in-the-environment"
    )


def test_a_token_that_is_sent_in_another_header_is_not_made_a_key() -> None:
    with pytest.raises(ProviderError) as raised:
        with_variables({"ANTHROPIC_AUTH_TOKEN": "t\n"}, resolve_endpoint, "anthropic/m")
    assert "ANTHROPIC_AUTH_TOKEN" in raised.value.line
    assert with_variables({"ANTHROPIC_AUTH_TOKEN": "t"}, resolve_endpoint, "anthropic/m").key is None


@pytest.mark.parametrize(
    "address", ["notaurl", "ftp://x", "http://", "http://x:99999", "127.0.0.1:8000/v1", "http://a b/v1", "http://[::1"]
)
@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/m", "OPENAI_API_BASE"),
        ("anthropic/m", "ANTHROPIC_BASE_URL"),
        ("ollama_chat/m", "OLLAMA_API_BASE"),
        ("deepseek/m", "DEEPSEEK_API_BASE"),
    ],
)
def test_an_address_that_is_none_is_wrong_configuration(address: str, model: str, name: str) -> None:
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "DEEPSEEK_API_KEY": "k"}
    with pytest.raises(ProviderError) as raised:
        with_variables({**keys, name: address}, resolve_endpoint, model)
    assert (raised.value.kind, raised.value.exit_status, raised.value.transient) == ("config", 2, False)
    assert name in raised.value.line
    assert (
        with_variables({**keys, name: address}, resolve_endpoint, model, "http://127.0.0.1:1/v1").base
        == "http://127.0.0.1:1/v1"
    )


def test_the_newline_of_a_secret_file_does_not_reach_the_server(
    model_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", f"{model_server.base('chat')}\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-file\n")
    model_server.load([{"text": "hello"}])
    heard = asyncio.run(hear(LitellmBackend(), request("openai/gpt-4o")))
    assert heard.error is None and heard.reply.message.content == "hello"
    assert model_server.requests[-1].headers["authorization"] == "Bearer sk-of-a-file"
