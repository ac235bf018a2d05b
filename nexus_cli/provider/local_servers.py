"""Model servers that answer at the addresses of the environment, or where they usually listen on loopback.

Nothing is sent to a server that accepts. Imports nothing of this room, because a start without a model uses it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

SECONDS, FAR_SECONDS = 0.05, 1.0
"""Time limits of a connection on loopback, and of one to an address of the environment."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that accepts connections."""

    name: str
    """The program that usually listens there."""
    url: str
    """Base address, the value for `*_API_BASE`."""
    prefix: str
    """Prefix of the model names that it serves."""


SERVERS = (
    LocalServer("Ollama", "http://127.0.0.1:11434", "ollama_chat/"),
    LocalServer("LM Studio", "http://127.0.0.1:1234/v1", "lm_studio/"),
    LocalServer("llama.cpp", "http://127.0.0.1:8080/v1", "llamafile/"),
    LocalServer("vLLM", "http://127.0.0.1:8000/v1", "hosted_vllm/"),
    LocalServer("an OpenAI-compatible server", "", "openai/"),
)
"""Where each usually listens; "" for one that only the environment can name."""
BASE_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    "ollama_chat": ("OLLAMA_API_BASE",),
    "lm_studio": ("LM_STUDIO_API_BASE",),
    "llamafile": ("LLAMAFILE_API_BASE",),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE",),
}
"""Variables that litellm reads for an address, in order of precedence."""


def local_servers(servers: tuple[LocalServer, ...] = SERVERS) -> list[LocalServer]:
    """Return the servers that accept a connection, in the order of `servers`. Never raises."""
    from nexus_cli.core.proxy import open_connection  # noqa: PLC0415  (most starts name a model)

    reached = []
    for server in servers:
        variable = next(
            (name for name in BASE_VARIABLES[server.prefix.rstrip("/")] if os.environ.get(name, "").strip()), ""
        )
        url = os.environ[variable].strip() if variable else server.url
        with suppress(OSError, ValueError):
            if urlsplit(url).hostname:
                seconds = FAR_SECONDS if variable else SECONDS
                open_connection(url, seconds, proxies=bool(variable), checks=False)[0].close()
                reached.append(LocalServer(server.name, url, server.prefix))
    return reached
