"""Sign in to a subscription by device login, and renew its tokens. All functions block: call them in a thread.

litellm has the addresses and client ids; `library` is its module `llms.PROVIDER.authenticator`. By itself it would keep
tokens in a folder of its own, readable by all, and begin a login in the middle of a request. So
`install_authenticator` makes it use the tokens in `sent_tokens`. A login is stored as keys are
(`config.stored_keys`): one JSON object.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places
from nexus_cli.config.stored_keys import store_key, stored_key
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.redact_secrets import protect_secret
from nexus_cli.provider.endpoint import Endpoint, login_command, set_key_hint
from nexus_cli.provider.failures import to_provider_error
from nexus_cli.provider.model_names import SUBSCRIPTIONS

Login = dict[str, Any]
Show = Callable[[str, str], None]
"""Shows a person the address to open and the code to enter there."""
SKEW = 60.0
"""Seconds before its end at which a token is renewed."""
LOCK_SECONDS = 60.0
CODE_SECONDS = 900.0
"""Validity of a code whose answer names none."""
MIN_INTERVAL, SLOWER = 0.1, 5.0
"""Least seconds between two polls; seconds that `slow_down` adds (RFC 8628)."""
TIMEOUT_STATUS = 408
"""The status with which litellm gives up waiting for the person."""
SECRETS = ("access_token", "refresh_token", "id_token", "token")
ENDINGS = {"access_denied": "the login was declined", "expired_token": "the code has expired"}


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one request."""

    bearer: str = field(repr=False)
    base: str | None
    account: str | None = None


sent_tokens: ContextVar[Tokens] = ContextVar("sent_tokens")
_unsaved: dict[str, tuple[str, Login]] = {}
"""By stored name: the text of a login that could not be replaced on the disk, and its renewed form."""


def install_authenticator(library: Any) -> None:
    """Make litellm's authenticator use `sent_tokens`: it reads and writes no file, and begins no login."""
    methods = {
        "__init__": lambda self: None,
        "get_api_key": lambda self: sent_tokens.get().bearer,
        "get_access_token": lambda self: sent_tokens.get().bearer,
        "get_api_base": lambda self: sent_tokens.get().base,
        "get_account_id": lambda self: sent_tokens.get().account,
        "_write_auth_file": lambda self, data: None,
    }
    for name, method in methods.items():
        setattr(library.Authenticator, name, method)


def log_in(provider: str, library: Any, show: Show) -> str:
    """Sign in by device login and return the login; raise `NexusError`: `auth` if declined or late."""
    install_authenticator(library)
    begin, wait, renew = _PROVIDERS[provider]
    try:
        address, code, device_request = begin(library)
        show(address, code)
        login = wait(library, device_request)
        return json.dumps(login if _is_fresh(login) else renew(library, login))
    except NexusError:
        raise
    except Exception as error:  # the seam: litellm's classes, the network's, and answers of another form
        what = f"no {SUBSCRIPTIONS[provider]} login"
        raise _failure(error, what, "the provider rejected the login", (provider, "")) from error


def fresh_tokens(endpoint: Endpoint, library: Any) -> Tokens:
    """Return the tokens for a request to `endpoint`, renewed if they are about to end.

    Of several processes one renews; if the disk refuses the new login, this process keeps it. Raises `ProviderError`:
    `auth` if the provider no longer accepts the login, else as a request would.
    """
    install_authenticator(library)
    default_base = getattr(library, "CHATGPT_API_BASE", None)
    if endpoint.key:
        return Tokens(endpoint.key, endpoint.base or default_base)
    login = _read(endpoint)
    if not _is_fresh(login):
        try:
            lock: Any = FileLock.wait_for(places().keys / f".{endpoint.login}.lock", LOCK_SECONDS)
        except OSError:  # a disk that cannot be written
            lock = nullcontext()
        with lock:
            login = _read(endpoint, anew=True)
            login = login if _is_fresh(login) else _renew(endpoint, library, login)
    return Tokens(_bearer(login), endpoint.base or login.get("base") or default_base, login.get("account_id"))


def _read(endpoint: Endpoint, *, anew: bool = False) -> Login:
    text = stored_key(endpoint.login, anew=anew)
    if (unsaved := _unsaved.get(endpoint.login)) and unsaved[0] == text:
        return unsaved[1]
    with suppress(ValueError):
        login = json.loads(text)
        if isinstance(login, dict) and isinstance(login.get("access_token"), str):
            return _protect(login)
    hint = set_key_hint(endpoint.provider, endpoint.login.partition("@")[2])
    raise ProviderError("auth", f"the stored {SUBSCRIPTIONS[endpoint.provider]} login is damaged", hint)


def _protect(login: Login) -> Login:
    """Return `login`, whose secrets are shown nowhere from now on."""
    for name in SECRETS:
        protect_secret(str(login.get(name, "")))
    return login


def _renew(endpoint: Endpoint, library: Any, login: Login) -> Login:
    try:
        renewed = _PROVIDERS[endpoint.provider][2](library, login)
    except Exception as error:  # the seam, as in `log_in`
        what, key_name = f"the {SUBSCRIPTIONS[endpoint.provider]} login", endpoint.login.partition("@")[2]
        raise _failure(error, what, "the login has expired or was revoked", (endpoint.provider, key_name)) from error
    _protect(renewed)
    former = stored_key(endpoint.login)
    try:
        store_key(endpoint.login, json.dumps(renewed))
    except NexusError:
        _unsaved[endpoint.login] = former, renewed
    return renewed


def _failure(error: Exception, what: str, refused: str, login_place: tuple[str, str]) -> ProviderError:
    """Return the error for a person, without the text of an answer: it may have tokens. `login_place` is the provider
    and the name of one of several logins; `refused` is the reason if the provider does not know the login."""
    provider_error = to_provider_error(error, model=f"{login_place[0]}/")
    status = provider_error.status
    if status == TIMEOUT_STATUS:
        return ProviderError("auth", ENDINGS["expired_token"], set_key_hint(*login_place), what=what)
    if provider_error.kind == "network" or status not in (400, 401, 403, 404):
        provider_error.what, provider_error.why = what, provider_error.why.partition(" for url")[0]
        return provider_error
    has_plan = status in (400, 401)
    why = refused if has_plan else "the account has no such subscription, or is not allowed to use it"
    hint = (
        set_key_hint(*login_place)
        if has_plan
        else f"Check the subscription of the account, then run {login_command(*login_place)}"
    )
    return ProviderError("auth", f"{why} (HTTP {status})", hint, what=what)


def _is_fresh(login: Login) -> bool:
    ends = login.get("expires_at")
    return isinstance(ends, int | float) and ends > time.time() + SKEW and bool(_bearer(login))


def _bearer(login: Login) -> str:
    """Return the token that requests carry: Copilot's own, else the access token."""
    return str(login.get("token") or login["access_token"])


def _poll(finish: Callable[[], Login | str], device_request: JsonObject) -> Login:
    """Call `finish` until it returns a login of GitHub Copilot; it returns the code of an error before. Raises
    `NexusError("auth", ...)` if that is none to wait for, or the code expires. litellm gives up after a minute."""
    interval = max(MIN_INTERVAL, float(device_request.get("interval") or 5))
    end = time.monotonic() + float(device_request.get("expires_in") or CODE_SECONDS)
    answer: Login | str = "authorization_pending"
    while answer in ("authorization_pending", "slow_down"):
        time.sleep(interval)
        answer = finish() if time.monotonic() < end else "expired_token"
        interval += SLOWER if answer == "slow_down" else 0.0
    if isinstance(answer, str):
        why = ENDINGS.get(answer, f"the provider answered {answer[:60]}")
        raise NexusError("auth", "no GitHub Copilot login", why, "Run `nexus login github-copilot` again")
    return answer


def _begin_copilot(library: Any) -> tuple[str, str, JsonObject]:
    device_request = library.Authenticator()._get_device_code()
    return device_request["verification_uri"], device_request["user_code"], device_request


def _wait_copilot(library: Any, device_request: JsonObject) -> Login:
    def ask() -> Login | str:
        answer = library._get_httpx_client().post(
            os.getenv("GITHUB_COPILOT_ACCESS_TOKEN_URL", library.DEFAULT_GITHUB_ACCESS_TOKEN_URL),
            headers=library.Authenticator()._get_github_headers(),
            json={
                "client_id": os.getenv("GITHUB_COPILOT_CLIENT_ID", library.DEFAULT_GITHUB_CLIENT_ID),
                "device_code": device_request["device_code"],
                "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
            },
        )
        payload = answer.json()
        return {"access_token": payload["access_token"]} if payload.get("access_token") else str(payload["error"])

    return _poll(ask, device_request)


def _renew_copilot(library: Any, login: Login) -> Login:
    """Exchange GitHub's token, which stays valid, for one of Copilot, valid for half an hour."""
    address = os.getenv("GITHUB_COPILOT_API_KEY_URL", library.DEFAULT_GITHUB_API_KEY_URL)
    headers = library.Authenticator()._get_github_headers(login["access_token"])
    answer = library._get_httpx_client().get(address, headers=headers)
    answer.raise_for_status()
    payload = answer.json()
    base, refresh_seconds = (payload.get("endpoints") or {}).get("api"), payload.get("refresh_in")
    # The clock of this machine may be wrong: seconds from now are preferred to a time.
    ends = time.time() + SKEW + refresh_seconds if isinstance(refresh_seconds, int | float) else payload["expires_at"]
    return {**login, "token": payload["token"], "expires_at": ends, "base": base}


def _begin_chatgpt(library: Any) -> tuple[str, str, JsonObject]:
    device_request = library.Authenticator()._request_device_code()
    return library.CHATGPT_DEVICE_VERIFY_URL, device_request["user_code"], device_request


def _wait_chatgpt(library: Any, device_request: JsonObject) -> Login:
    authenticator = library.Authenticator()
    tokens = authenticator._exchange_code_for_tokens(authenticator._poll_for_authorization_code(device_request))
    return dict(authenticator._build_auth_record(tokens))


def _renew_chatgpt(library: Any, login: Login) -> Login:
    authenticator = library.Authenticator()
    return dict(authenticator._build_auth_record(authenticator._refresh_tokens(login["refresh_token"])))


_PROVIDERS: Mapping[str, tuple[Callable[..., Any], Callable[..., Login], Callable[..., Login]]] = {
    "github_copilot": (_begin_copilot, _wait_copilot, _renew_copilot),
    "chatgpt": (_begin_chatgpt, _wait_chatgpt, _renew_chatgpt),
}
"""By provider: request a code, wait until it is entered, renew."""
