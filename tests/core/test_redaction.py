"""What counts as a key, and what does not."""

from __future__ import annotations

import pytest

from nexus_cli.core.redaction import REDACTED, redact

LOUD = {
    "OPENAI_API_KEY": "hunter2-my-key",
    "CI_TOKEN": "tok-plain",
    "APP_SECRET_VALUE": "quite ordinary",
    "AWS_SECRET_ACCESS_KEY": "ordinary/words/too",
}
QUIET = {"AWS_REGION": "us-east-1", "AWS_PROFILE": "default", "LANG": "C.UTF-8", "OTHER_API_KEY": "none", "X_TOKEN": ""}


@pytest.mark.parametrize("name", LOUD)
def test_the_value_of_a_key_variable_never_stays_whatever_it_looks_like(name: str) -> None:
    value = LOUD[name]
    assert redact(f"Incorrect API key provided: {value}.", environ=LOUD) == f"Incorrect API key provided: {REDACTED}."
    assert value not in redact(f'{{"k":"{value}"}}', environ=LOUD)


@pytest.mark.parametrize("value", [value for value in QUIET.values() if value])
def test_variables_that_hold_no_key_and_values_too_short_for_one_stay_readable(value: str) -> None:
    assert redact(f"in {value} now", environ=QUIET) == f"in {value} now"


def test_a_short_value_goes_as_a_word_of_its_own_only() -> None:
    assert redact("ollama: ollama_chat/x at ollamas", environ={"A_API_KEY": "ollama"}) == (
        f"{REDACTED}: ollama_chat/x at ollamas"
    )


def test_the_environment_of_the_process_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_API_KEY", "plain words")
    assert redact("they were plain words") == f"they were {REDACTED}"


FORMS = [
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpw"),
    ("sent basic dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpw"),
    ("x-api-key: AbCdEfGhIjKlMnOpQrStUvWx", "AbCdEf"),
    ('"X-Goog-Api-Key": "AbCdEfGhIj"', "AbCdEf"),
    ("https://user:passw0rd@host/v1 failed", "passw0rd"),
    ("AKIAIOSFODNN7EXAMPLE secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrX"),
    ("glpat-abcdefghij1234567890", "abcdefghij"),
    ("sk-abc123def456ghi", "abc123"),
]


@pytest.mark.parametrize(("text", "secret"), FORMS)
def test_the_forms_that_keys_have_are_found(text: str, secret: str) -> None:
    said = redact(text, environ={})
    assert secret not in said and REDACTED in said


@pytest.mark.parametrize("text", ["Incorrect API key provided: sk-1234.", "invalid key 'hunter2secret'", "Bearer abc"])
def test_a_line_about_a_failure_is_searched_for_more(text: str) -> None:
    assert REDACTED in redact(text, opaque=True, environ={})


@pytest.mark.parametrize(
    "text",
    ["a basic understanding of basic128bit", "commit 9b92668aa0e5d7a3e3b1f4c5d6e7f8a9b0c1d2e3", "authorization: ok"],
)
def test_a_conversation_keeps_its_prose_and_its_hashes(text: str) -> None:
    assert redact(text, environ={}) == text


SLOW = ("basic ", "x-api-key", "authorization:", "a-", "1", "sess-", "key '", "f", "AKIA0", "/")


@pytest.mark.parametrize("piece", SLOW)
def test_no_text_makes_the_search_slow(piece: str) -> None:
    assert redact(piece * 10_000, opaque=True, environ={}) is not None
