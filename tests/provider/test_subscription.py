"""The wait for a person who signs in to a subscription; the whole way is the story `jobs/test_subscription.py`."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nexus_cli.core.errors import NexusError
from nexus_cli.provider import subscription
from nexus_cli.provider.model_names import SUBSCRIPTIONS
from nexus_cli.provider.model_table import is_covered, model_info, subscription_models


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The seconds of each wait, which cost none."""
    made: list[float] = []
    clock = SimpleNamespace(sleep=made.append, monotonic=lambda: sum(made), time=lambda: 1_000_000.0)
    monkeypatch.setattr(subscription, "time", clock)
    yield made


def poll(answers: list[Any], asked: dict[str, Any]) -> Any:
    given = iter(answers)
    return subscription._poll(lambda: next(given, "authorization_pending"), asked)


def test_a_poll_waits_as_long_as_the_provider_asks(waits: list[float]) -> None:
    login = {"access_token": "x"}
    assert poll(["authorization_pending", "slow_down", "slow_down", login], {"interval": "5"}) == login
    assert waits == [5, 5, 10, 15]
    waits.clear()
    assert poll([login], {}) == login and waits == [5]


def test_a_code_that_nobody_enters_expires(waits: list[float]) -> None:
    with pytest.raises(NexusError, match="expired") as raised:
        poll([], {"interval": 7, "expires_in": 60})
    assert raised.value.exit_status == 2 and 60 <= sum(waits) < 67


def test_a_code_of_chatgpt_that_nobody_enters_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    class GetAccessTokenError(Exception):
        status_code = 408

    def give_up(library: Any, asked: Any) -> Any:
        raise GetAccessTokenError("Timed out waiting for device authorization")

    ways: Any = (lambda library: ("https://x", "CODE", {}), give_up, dict)
    monkeypatch.setattr(subscription, "_PROVIDERS", {"chatgpt": ways})
    monkeypatch.setattr(subscription, "install_authenticator", lambda library: None)
    with pytest.raises(NexusError) as raised:
        subscription.log_in("chatgpt", None, lambda address, code: None)
    assert (raised.value.kind, raised.value.why) == ("auth", "the code has expired")
    assert "nexus login chatgpt" in raised.value.hint


def test_an_unknown_refusal_is_quoted(waits: list[float]) -> None:
    with pytest.raises(NexusError, match="device_flow_disabled"):
        poll(["device_flow_disabled"], {})


def test_a_token_of_copilot_ends_by_its_seconds_not_by_a_clock_that_may_be_wrong(waits: list[float]) -> None:
    def renew(**answer: Any) -> Any:
        reply = SimpleNamespace(json=lambda: {"token": "t", **answer}, raise_for_status=lambda: None)
        client = SimpleNamespace(get=lambda address, headers: reply)
        headers = SimpleNamespace(_get_github_headers=lambda token: {})
        library = SimpleNamespace(
            DEFAULT_GITHUB_API_KEY_URL="https://x", Authenticator=lambda: headers, _get_httpx_client=lambda: client
        )
        return subscription._renew_copilot(library, {"access_token": "g"})

    for expires_at in (1.0, 9e9):
        login = renew(expires_at=expires_at, refresh_in=1500)
        assert subscription._is_fresh(login) and login["expires_at"] < 1_002_000
    assert not subscription._is_fresh(renew(expires_at=1_000_059)) and subscription._is_fresh(
        renew(expires_at=1_000_061)
    )


def test_what_a_subscription_covers_has_no_price_even_if_the_table_has_one() -> None:
    for provider in SUBSCRIPTIONS:
        listed = subscription_models(provider)
        assert listed and all(name.startswith(f"{provider}/") and is_covered(name) for name in listed)
        for name in (*listed, f"{provider}/gpt-99"):
            info = model_info(name)
            assert info.covered and info.input_price is None and info.output_price is None and not info.tiers
    own = model_info("github_copilot/gpt-5", {"github_copilot/gpt-5": {"input_price": 1.0, "output_price": 2.0}})
    assert not own.covered and own.input_price == 1.0
    assert not model_info("openai/gpt-5").covered
