"""OAuth of servers with a URL, by the SDK: the callback on the loopback interface and the private file of tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, TokenStorage
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.wire import as_table

EXPIRED = 1.0
"""A time in the past, in seconds since 1970; 0 would be a token without an end."""
LOGIN_SECONDS = 300.0
"""Seconds that a person has for a login in the browser."""
_PAGE = b"<!doctype html><title>nexus</title><p>nexus has the answer. You can close this page."


class LoginNeeded(OAuthFlowError):
    """The server wants a login, and this is a call, not a login."""


class TokenFile(TokenStorage):
    """The tokens of one server in a file of mode 0600, with what is needed to refresh them in a later process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.context: Any = None
        """The SDK's state of the flow: its metadata is stored with the tokens."""
        try:
            read = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            read = {}
        self.stored: JsonDict = as_table(read)

    def has_tokens(self) -> bool:
        """Return True if a login has succeeded."""
        return "tokens" in self.stored

    def forget(self) -> None:
        """Forget what an earlier login left, except the scope that a call wanted."""
        self.stored = {"wanted_scope": self.stored.get("wanted_scope")}

    def store_missing_scope(self, scope: str | None) -> None:
        """Store the scope that a call lacked, for the next login."""
        self.stored["wanted_scope"] = scope
        self._write()

    def _write(self) -> None:
        replace_private_file(self.path, json.dumps(self.stored).encode())

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return OAuthToken.model_validate(self.stored["tokens"]) if self.has_tokens() else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens, when they expire, and where they are refreshed."""
        self.stored["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        self.stored["expires_at"] = time.time() + tokens.expires_in if tokens.expires_in else None
        if self.context is not None:
            for name in ("oauth_metadata", "protected_resource_metadata"):
                value = getattr(self.context, name)
                self.stored[name] = value.model_dump(mode="json", exclude_none=True) if value else None
            self.stored["auth_server_url"] = self.context.auth_server_url
        self._write()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our registration with the server."""
        client = self.stored.get("client")
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep how the server knows us; it is written with the tokens."""
        self.stored["client"] = client_info.model_dump(mode="json", exclude_none=True)


class StoredLogin(OAuthClientProvider):
    """The SDK's flow, which begins with what an earlier process has stored."""

    begins_logins = False

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Refresh a token once that the server refuses before its time; the SDK would begin a login at once."""
        for is_first in (True, False):
            async with contextlib.aclosing(super()._auth_flow(request)) as flow:
                outgoing = await anext(flow)
                may_refresh = is_first and outgoing is request and self.context.can_refresh_token()
                while True:
                    response = yield outgoing
                    if may_refresh and outgoing is request and response.status_code == HTTPStatus.UNAUTHORIZED:
                        break
                    try:
                        outgoing = await flow.asend(response)
                    except StopAsyncIteration:
                        return
            token = self.context.current_tokens
            if token and request.headers.get("Authorization") == f"Bearer {token.access_token}":
                self.context.token_expiry_time = EXPIRED

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        """Ask for what an earlier call wanted too: a server may name each scope only where it is missing."""
        storage, metadata = self.context.storage, self.context.client_metadata
        assert isinstance(storage, TokenFile)
        metadata.scope = union_scopes(storage.stored.get("wanted_scope"), metadata.scope)
        if not self.begins_logins:
            storage.store_missing_scope(metadata.scope)
            raise LoginNeeded("the server requires a login")
        return await super()._perform_authorization_code_grant()

    async def _initialize(self) -> None:
        storage = self.context.storage
        assert isinstance(storage, TokenFile)
        try:
            await super()._initialize()
            stored, context = storage.stored, self.context
            context.token_expiry_time = stored.get("expires_at")
            context.auth_server_url = stored.get("auth_server_url")
            if stored.get("oauth_metadata"):
                context.oauth_metadata = OAuthMetadata.model_validate(stored["oauth_metadata"])
            if stored.get("protected_resource_metadata"):
                metadata = ProtectedResourceMetadata.model_validate(stored["protected_resource_metadata"])
                context.protected_resource_metadata = metadata
        except ValidationError as error:
            raise LoginNeeded("the stored login cannot be read") from error


def stored_login(url: str, tokens: TokenFile) -> StoredLogin:
    """Return the authentication of a call: stored tokens are used and refreshed; a login is not begun."""
    return _provider(url, tokens, "http://127.0.0.1/callback", None, None)


@contextlib.asynccontextmanager
async def browser_login(url: str, tokens: TokenFile, show_url: TakeText) -> AsyncIterator[StoredLogin]:
    """Listen on the loopback interface and yield the authentication of a login."""
    answered: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
    expected = list[str]()

    async def show(address: str) -> None:
        expected[:] = parse_qs(urlsplit(address).query).get("state", ())
        show_url(address)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, TimeoutError, IndexError):
            async with asyncio.timeout(10):
                first = (await reader.readline()).decode("ascii", "replace").split()
                target = urlsplit(first[1])
                query = parse_qs(target.query)
                is_valid = target.path == "/callback" and first[0] == "GET"
                head = b"HTTP/1.1 200 OK" if is_valid else b"HTTP/1.1 404 Not Found"
                if is_valid and query.get("state", []) != expected:  # of another login, or a forged one
                    is_valid, head = False, b"HTTP/1.1 400 Bad Request"
                body = _PAGE if is_valid else b""
                kind = b"\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: "
                writer.write(head + kind + str(len(body)).encode() + b"\r\n\r\n" + body)
                await writer.drain()
                if is_valid and not answered.done():
                    _settle(answered, {name: values[0] for name, values in query.items()})
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0, limit=65_536)
    port = listener.sockets[0].getsockname()[1]
    wait = partial(asyncio.wait_for, answered, LOGIN_SECONDS)
    try:
        yield _provider(url, tokens, f"http://127.0.0.1:{port}/callback", show, wait)
    finally:
        listener.close()
        answered.cancel()


def _settle(answered: asyncio.Future[AuthorizationCodeResult], query: dict[str, str]) -> None:
    if "code" in query:
        answered.set_result(AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss")))
    elif "error" in query:
        why = f"{query['error']} {query.get('error_description', '')}".strip()
        answered.set_exception(OAuthFlowError(why))


def _provider(
    url: str,
    tokens: TokenFile,
    callback: str,
    show_url: Callable[[str], Awaitable[None]] | None,
    wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None,
) -> StoredLogin:
    metadata = OAuthClientMetadata(
        client_name="nexus",
        redirect_uris=[AnyUrl(callback)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    provider = StoredLogin(url, metadata, tokens, show_url, wait)
    provider.begins_logins = show_url is not None
    tokens.context = provider.context
    return provider
