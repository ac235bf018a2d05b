"""`/login`, `/logout`, `/key`: a key that is typed unseen is stored, used at once, and said nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands.conftest import FakeContext

from nexus_cli.commands import discover
from nexus_cli.config.paths import places
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.endpoint import KEY_VARIABLES
from nexus_cli.sandbox.sandbox_environment import mask_secrets

KEY = "sk-0123456789abcdef"


def stored() -> list[Path]:
    return sorted(places().keys.glob("*"))


def test_a_key_is_stored_and_wins_over_the_environment_from_now_on(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789")
    context.secrets = ["not a key", f"  {KEY} "]
    context.run("login openai")
    assert [path.read_text() for path in stored()] == [KEY] and "OPENAI_API_KEY" not in os.environ
    text = "\n".join(context.said)
    assert str(stored()[0]) in text and "OPENAI_API_KEY is ignored in this session" in text and KEY not in text
    assert len(context.asked) == 2 and "/continue" not in text


def test_a_stored_key_is_listed_by_its_name_and_removed_again(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in KEY_VARIABLES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    context.secrets = [KEY]
    context.run("login openai").run("key")
    row = {"name": "OPENAI_API_KEY", "key_name": "", "place": str(stored()[0])}
    assert context.shown[-1] == ("keys", {"version": 1, "keys": [row]})
    complete = discover()["logout"].complete
    assert complete is not None and complete(context) == ["openai", "--as"]
    context.run("logout openai")
    assert context.said[-1].startswith("The OpenAI key was removed from ") and not stored()
    assert context.run("keys").shown[-1] == ("keys", {"version": 1, "keys": []})
    with pytest.raises(NexusError, match="no OpenAI key is stored"):
        context.run("logout openai")


def test_the_provider_of_the_model_is_offered_first_and_esc_stores_nothing(context: FakeContext) -> None:
    context.run("login")
    assert context.offered[0].key == "openai" and not stored(), "nobody chose"
    context.pick = lambda choices: choices[1].key
    context.run("login")
    assert not stored() and context.said[-1] == "No key was stored."
    context.secrets = ["", KEY]
    context.run("login")
    assert not stored(), "an empty line cancels"
    context.secrets = [KEY]
    context.run("login anthropic")
    assert "To store it: /login openai" in " ".join(context.said) and not stored()


def test_a_provider_may_be_called_by_its_whole_name(context: FakeContext) -> None:
    context.run("login Google Gemini")
    assert "Google Gemini" in context.said[0] and context.said[-1] == "No key was stored."


ODD_KEY = "foobarkey-of-no-known-form"


def test_a_second_key_has_a_name_and_the_first_one_stays_in_use(context: FakeContext) -> None:
    context.secrets = [KEY]
    context.run("login openai --as work")
    assert [path.name for path in stored()] == ["OPENAI_API_KEY@work"] and os.environ["OPENAI_API_KEY"] == "x"
    assert "To use this key: /model work:openai/MODEL." in context.said[-1]
    with pytest.raises(NexusError, match="invalid key name"):
        context.run("login openai --as 1")


def test_a_secret_of_the_settings_is_stored_by_its_name(context: FakeContext) -> None:
    context.secrets = ["any form"]
    context.run("login HOOK_SECRET")
    assert [path.read_text() for path in stored()] == ["any form"] and "HOOK_SECRET is stored in" in context.said[-1]


@pytest.mark.matrix
@pytest.mark.parametrize("rest", [KEY, "banana", f"openai {KEY}", f"openai {ODD_KEY}", ODD_KEY])
def test_a_key_as_an_argument_and_an_unknown_provider_are_refused(rest: str, context: FakeContext) -> None:
    with pytest.raises(NexusError) as caught:
        context.run(f"login {rest}")
    assert caught.value.kind == "usage" and not context.asked
    assert KEY not in caught.value.line and ODD_KEY not in caught.value.line


def test_the_model_sees_neither_the_former_nor_the_new_key(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789")
    context.secrets = [KEY]
    context.run("login openai")
    masked, names = mask_secrets(f"old sk-wrong-0123456789 new {KEY}", os.environ)
    assert masked == "old [OPENAI_API_KEY] new [OPENAI_API_KEY]" and set(names) == {"OPENAI_API_KEY"}


def test_a_key_that_the_provider_refuses_is_asked_for_again(
    context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", lambda name, key: ("unknown key" * (key != KEY), ""))
    context.secrets = ["sk-wrong-0123456789", KEY]
    context.run("login openai")
    assert "OpenAI rejected this key: unknown key" in "\n".join(context.said)
    assert [path.read_text() for path in stored()] == [KEY]


def test_the_third_refused_key_ends_the_question(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", lambda *asked: ("wrong key", ""))
    context.secrets = [f"{KEY}{number}" for number in range(3)]
    context.run("login openai")
    assert "rejected this key: wrong key. Nothing was stored." in "\n".join(context.said)
    assert not stored()


def test_a_refused_key_that_is_given_again_is_stored(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", lambda *asked: ("no list of models here", ""))
    context.secrets = [KEY, KEY]
    context.run("login openai")
    assert "paste this one again to store it" in "\n".join(context.said)
    assert [path.read_text() for path in stored()] == [KEY]


def test_behind_a_gateway_the_key_is_said_to_go_there(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "https://gateway.firm.example/v1")
    answers = iter([("wrong key", ""), ("", "the server's name gateway.firm.example was not found")])
    monkeypatch.setattr("nexus_cli.provider.key_check.check_key", lambda *asked: next(answers))
    context.secrets = ["sk-wrong-0123456789", KEY]
    context.run("login openai")
    said = "\n".join(context.said)
    assert "The key will be sent to gateway.firm.example" in said and "platform.openai.com" not in said
    assert "gateway.firm.example rejected this key: wrong key" in said and "The key was not verified:" in said
    assert [path.read_text() for path in stored()] == [KEY]
