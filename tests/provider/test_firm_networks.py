"""The networks of firms: proxies that inspect TLS or want a password, and what a failure in one says."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import need
from provider.talk import ASKED, hear, request
from server.firm_proxy import FirmProxy, make_ca
from server.play import ScriptedServer

from nexus_cli.core import certificates
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import RetryDelta
from nexus_cli.provider import retry
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.retry import RetryingProvider

VARIABLES = {"openai": "OPENAI_API_BASE", "anthropic": "ANTHROPIC_API_BASE"}
MODELS = {"openai": "openai/firm", "anthropic": "anthropic/claude-firm"}
PROVIDERS = pytest.mark.parametrize("provider", VARIABLES)
_hosts = (f"models-{number}.firm.example" for number in itertools.count())
"""A host for each request: litellm keeps connections and contexts by address."""


@pytest.fixture(autouse=True)
def no_system_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the store of this machine."""
    need("openssl")
    monkeypatch.setattr(certificates, "SYSTEM_FILES", ())


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ProviderError | None, int, str]]:
    def ask(provider: str, proxy: str, address: str = "") -> tuple[ProviderError | None, int, str]:
        """The error of a request through `proxy`, the number of retries, and the host."""
        host = next(_hosts)
        monkeypatch.setenv(VARIABLES[provider], address or f"https://{host}" + ("/v1" if provider == "openai" else ""))
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", "sk-firm")
        if proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy)
            monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setattr(retry, "backoff_seconds", lambda attempt: 0.0)
        heard = asyncio.run(hear(RetryingProvider(LitellmBackend()), request(MODELS[provider], ASKED)))  # type: ignore[arg-type]
        return heard.error, sum(isinstance(delta, RetryDelta) for delta in heard.deltas), host

    return ask


@pytest.mark.matrix
@PROVIDERS
def test_the_ca_of_a_proxy_that_inspects_tls_counts_from_the_system_or_from_a_variable(
    provider: str,
    ask: Callable[..., tuple[ProviderError | None, int, str]],
    model_server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ca = make_ca(tmp_path)
    with FirmProxy(model_server.port, ca, "me:pass word") as proxy:
        place = f"http://me:pass%20word@127.0.0.1:{proxy.port}"
        monkeypatch.setattr(certificates, "SYSTEM_FILES", ("/nowhere", str(ca)))
        assert ask(provider, place)[0] is None
        monkeypatch.setattr(certificates, "SYSTEM_FILES", ())
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.setenv(name, str(ca))
            assert ask(provider, place)[0] is None
            monkeypatch.delenv(name)
    assert len(model_server.requests) == 3 and {line.split()[0] for line in proxy.asked} == {"CONNECT"}


@pytest.mark.matrix
@PROVIDERS
def test_a_certificate_that_is_not_trusted_is_named_at_once_with_the_variable(
    provider: str,
    ask: Callable[..., tuple[ProviderError | None, int, str]],
    model_server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FirmProxy(model_server.port, make_ca(tmp_path)) as proxy:
        error, waits, host = ask(provider, proxy.url)
        assert error is not None and error.kind == "network" and waits == 0
        assert f"the certificate of {host} is not trusted: " in error.why and "local issuer certificate" in error.why
        assert "SSL_CERT_FILE=/path/to/ca.pem" in error.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing.pem"))
        error, _, _ = ask(provider, proxy.url)
        assert error is not None and f"SSL_CERT_FILE={tmp_path}/nothing.pem is not a file" in error.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(make_ca(tmp_path, "other")))
        error, _, _ = ask(provider, proxy.url)
        assert error is not None and f"SSL_CERT_FILE={tmp_path}/other.pem lacks the CA" in error.hint
    assert model_server.requests == []


def test_a_certificate_of_another_host_or_an_expired_one_is_not_blamed_on_the_ca(
    ask: Callable[..., tuple[ProviderError | None, int, str]],
    model_server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ca = make_ca(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    for reason, options in {"mismatch": {"host": "127.0.0.2"}, "expired": {"host": "127.0.0.1", "days": 0}}.items():
        with FirmProxy(model_server.port, ca, **options) as server:  # type: ignore[arg-type]
            error, waits, _ = ask("openai", "", f"https://127.0.0.1:{server.port}/v1")
            assert error is not None and waits == 0 and reason in error.why
            assert "the certificate of 127.0.0.1 is not valid" in error.why and "SSL_CERT_FILE" not in error.hint


@pytest.mark.matrix
@PROVIDERS
def test_a_proxy_that_refuses_or_is_away_is_named_and_not_the_provider(
    provider: str, ask: Callable[..., tuple[ProviderError | None, int, str]], model_server: ScriptedServer
) -> None:
    with FirmProxy(model_server.port, login="me:secret") as proxy:
        place = f"127.0.0.1:{proxy.port}"
        for address, wanted in {"": "https", "http://plain.firm.example": "http"}.items():
            error, waits, host = ask(provider, f"http://me:wrong@{place}", address)
            assert error is not None and error.kind == "network" and waits == 0
            assert f"the proxy {place} ({wanted.upper()}_PROXY) did not connect to " in error.why
            assert "user name or password rejected (407)" in error.why
            assert "secret" not in str(error) and "wrong" not in str(error)
            assert (
                f"{wanted.upper()}_PROXY" in error.hint and f"NO_PROXY={host if not address else 'plain'}" in error.hint
            )
    error, waits, _ = ask(provider, f"http://{place}")
    assert error is not None and waits == 4
    assert error.why == f"the proxy {place} (HTTPS_PROXY) cannot be reached: the connection was refused"
    assert model_server.requests == []


def test_a_system_that_verifies_by_itself_does_so_unless_a_variable_names_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(certificates, "HAS_NATIVE_STORE", True)
    monkeypatch.setattr(certificates, "SYSTEM_FILES", (__file__,))
    plain, injected = ssl.SSLContext, []
    monkeypatch.setattr("truststore.inject_into_ssl", lambda: injected.append(True))
    monkeypatch.setenv("SSL_CERT_FILE", str(make_ca(tmp_path)))
    assert isinstance(certificates.client_context(), plain) and injected == []
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing"))
    assert certificates.certificate_file() == ""
    certificates.trust_system()
    assert injected == [True]
