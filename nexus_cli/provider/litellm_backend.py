"""Send one request through litellm and yield the deltas of its answer. Nothing else imports litellm.

`call_arguments` builds the arguments, `open_stream` holds the connection, `chunk_parser` reads the chunks, `failures`
classifies errors, `retry` tries again.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from nexus_cli.core.certificates import trust_system
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import Delta, ModelInfo, Request, SentDelta
from nexus_cli.provider.call_arguments import SDK_PASSTHROUGH, build_arguments
from nexus_cli.provider.chunk_parser import ChunkParser
from nexus_cli.provider.endpoint import Endpoint, check_address_hint, resolve_endpoint
from nexus_cli.provider.head_start import begins_process, find_head_start
from nexus_cli.provider.light_import import light_imports
from nexus_cli.provider.litellm_env import (
    http_library,
    keep_platform_from_starting_programs,
    litellm_environment,
    silence_litellm,
)
from nexus_cli.provider.message_lines import MessageEncoder, fill_body, filling
from nexus_cli.provider.model_names import SUBSCRIPTIONS, split_model_name
from nexus_cli.provider.model_table import model_info, newer_models
from nexus_cli.provider.open_stream import END, OpenStream, note_request, note_response
from nexus_cli.provider.prompt_cache import add_cache_marks, takes_marks

REASONERS = re.compile(r"o\d")
"""OpenAI models whose adapter rewrites messages."""
OWN_CLIENT = frozenset(
    "anthropic bedrock deepseek gemini hosted_vllm mistral ollama_chat openrouter vertex_ai xai".split()
)
"""Providers whose adapter accepts our HTTP client, which can close a response at once."""


_importing = threading.Lock()
_litellm: Any = None


def litellm() -> Any:
    """Return the module, imported and set up on the first call. Safe from any thread; raises `ImportError` if it is
    absent.

    The import creates so many permanent objects that garbage collection doubles its cost. Collection is off meanwhile,
    and the new objects are frozen afterwards.
    """
    global _litellm
    with _importing:
        if _litellm is None:
            collecting = gc.isenabled()
            gc.disable()
            try:
                trust_system()
                keep_platform_from_starting_programs()
                with litellm_environment(), light_imports():
                    import litellm as module  # noqa: PLC0415
            finally:
                gc.freeze()
                if collecting:
                    gc.enable()
            silence_litellm(module)
            module.model_cost.update(newer := dict(newer_models()))
            module.add_known_models(newer)
            _fill_bodies()
            _disable_ollama_queries()
            _litellm = module
    return _litellm


def authenticator(provider: str) -> Any:
    """Return litellm's module that signs in to the subscription `provider`."""
    litellm()
    with litellm_environment():
        return import_module(f"litellm.llms.{provider}.authenticator")


async def _use_login(endpoint: Endpoint) -> None:
    """Let the request that follows in this context use fresh tokens of a subscription."""
    from nexus_cli.provider.subscription import fresh_tokens, sent_tokens  # noqa: PLC0415  (few have a subscription)

    library = await asyncio.to_thread(authenticator, endpoint.provider)
    sent_tokens.set(await asyncio.to_thread(fresh_tokens, endpoint, library))


def _client_class() -> Any:
    """Return litellm's HTTP client class without its retry, which repeats a request after a lost connection."""
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415

    class SingleAttempt(AsyncHTTPHandler):  # type: ignore[misc]
        async def single_connection_post_request(self, *_: Any, **__: Any) -> Any:
            raise sys.exception() or ConnectionError("the connection was lost")

    return SingleAttempt


def _fill_bodies() -> None:
    """Make litellm create openai clients that put the encoded messages into each request (`message_lines`), and leave
    the chunks of an answer as plain JSON: making their objects takes longer than all else that is done with a chunk.
    The parameters of such a request are plain JSON too: the SDK does not compare them with its types."""
    from litellm.llms.openai import openai as adapter  # noqa: PLC0415
    from openai import NotGiven, Omit  # noqa: PLC0415
    from openai.resources.chat.completions import completions  # noqa: PLC0415

    compare_types: Any = getattr(completions, "async_maybe_transform", None)

    async def keep_parameters(parameters: Any, kind: Any) -> Any:
        if filling.get() is None:
            return await compare_types(parameters, kind)
        return {name: value for name, value in parameters.items() if not isinstance(value, NotGiven | Omit)}

    class AsyncOpenAI(adapter.AsyncOpenAI):  # type: ignore[misc]
        async def _prepare_request(self, request: Any) -> None:
            fill_body(request)
            await note_request(request)

        def _process_response_data(self, *, data: object, **_: Any) -> object:
            return data

    adapter.AsyncOpenAI = AsyncOpenAI
    if compare_types is not None:  # else another version of the SDK, which compares them in its own way
        vars(completions)["async_maybe_transform"] = keep_parameters


def _disable_ollama_queries() -> None:
    """Stop litellm from querying Ollama about the model several times a request; `served_models` queries it once."""
    from litellm.llms.ollama.common_utils import OllamaModelInfo  # noqa: PLC0415

    OllamaModelInfo.get_model_info = lambda *_, **__: None


class LitellmBackend:
    """A `Provider` for every model that litellm supports."""

    def __init__(
        self,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        info: Callable[[str], ModelInfo] = model_info,
        templates: Path | None = None,
    ) -> None:
        """Initialize; `api_base` and `api_key` override the environment.

        `info` returns windows and prices (`model_info` bound to the settings' overrides). With `templates`, a folder,
        the first request may be sent before litellm is imported (`head_start`); the caller then has to send a request
        again that fails as `cut`.
        """
        self._base = api_base
        self._key = api_key
        self._info = info
        self._templates = templates
        self._clients: dict[asyncio.AbstractEventLoop, Any] = {}
        self._encoder = MessageEncoder()

    def prepare(self) -> None:
        """Import litellm (about 1.3 s of CPU). Thread-safe and idempotent."""
        litellm()

    async def aclose(self) -> None:
        """Close the connections kept for the next request."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the deltas of one reply; see `core.request.Provider`.

        A stream without progress for `request.stall_seconds` raises `ProviderError` of kind `network`. Closing the
        iterator or cancelling its task closes the socket.
        """
        # In a thread: a keyring may wait until a person unlocks it.
        endpoint = await asyncio.to_thread(resolve_endpoint, request.model, self._base, self._key)
        if takes_marks(request.model, endpoint.provider):
            request = add_cache_marks(request)
        info = self._info(request.model)
        reading = ChunkParser(info)
        line = OpenStream(request.stall_seconds, request.sending)
        ahead = None
        if self._templates is not None and await begins_process():
            ahead = find_head_start(self._templates, request, endpoint, info)
        try:
            if ahead is not None:
                await ahead.begin()
            if _litellm is None:
                await asyncio.to_thread(litellm)
            if info.pending:  # its server has had the time of the import to answer
                info = self._info(request.model)
            if endpoint.provider in SUBSCRIPTIONS:
                await _use_login(endpoint)
            with ahead.lead() if ahead is not None else nullcontext():
                await self._open(line, request, endpoint, info)
            if line.is_web_page:
                why = "the server sent a web page instead of an answer"
                raise ProviderError("provider", why, check_address_hint(endpoint.provider))
            reading.track_gemini_reasons(line.chunks)
            while (chunk := await line.next_chunk()) is not END:
                for delta in reading.parse(chunk):
                    yield delta
            if digest := line.body_sha256:
                yield SentDelta(f"{http_library()} {digest}")
            if line.has_invented_end:
                return
            for delta in reading.finish():
                yield delta
        except ProviderError:
            raise
        except Exception as error:  # the seam: every class that litellm and the SDKs under it raise is sorted here
            from nexus_cli.provider.failures import to_provider_error  # noqa: PLC0415  (few requests fail)

            wasted = ahead.refuse_wasted() if ahead is not None else None
            begun, limit = reading.started, request.stall_seconds
            raise wasted or to_provider_error(error, model=request.model, started=begun, stall_seconds=limit) from error
        finally:
            if ahead is not None:
                await ahead.aclose()
            await line.aclose()

    async def _open(self, line: OpenStream, request: Request, endpoint: Endpoint, info: ModelInfo) -> None:
        walk = self._walks(endpoint, request.tools, request.effort)
        arguments = build_arguments(request, endpoint, info, walk=walk)
        filling.set(None if walk else self._encoder.encode(request.messages))
        arguments["timeout"] = request.stall_seconds
        module = litellm()
        with litellm_environment():
            if endpoint.provider in OWN_CLIENT:
                arguments["client"] = self._client()
            try:
                await line.open(module.acompletion, arguments)
            except module.UnsupportedParamsError:
                # Raised before anything is sent. The effort's level is unknown to this model: its default is used.
                if "reasoning_effort" not in arguments:
                    raise
                del arguments["reasoning_effort"]
                await line.open(module.acompletion, arguments)
            finally:
                filling.set(None)

    def _walks(self, endpoint: Endpoint, tools: Sequence[JsonObject], effort: str) -> bool:
        """Return True if the messages must go through litellm: always, unless the body is provably the same."""
        bare = split_model_name(endpoint.model)[1]
        if endpoint.provider not in SDK_PASSTHROUGH or REASONERS.match(bare):
            return True
        if endpoint.provider != "openai":
            return False
        route, _ = litellm().main.responses_api_bridge_check(
            model=bare,
            custom_llm_provider="openai",
            tools=list(tools),
            reasoning_effort=effort or None,
            api_base=endpoint.base,
        )
        return bool(route.get("mode") == "responses")

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = _client_class()(event_hooks={"request": [note_request], "response": [note_response]})
        return self._clients[loop]
