"""Model servers found on the loopback address.

Owns the four ports to try. Nothing is sent to a port that accepts. Imports nothing of this room, because a start
without a model uses it.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

SECONDS = 0.05
"""Time-out for one port."""
PORTS = (
    (11434, "Ollama", "ollama_chat/"),
    (1234, "LM Studio", "lm_studio/"),
    (8080, "llama.cpp", "llamafile/"),
    (8000, "vLLM", "hosted_vllm/"),
)


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A port of loopback that accepts connections."""

    name: str
    """The program that usually listens there."""
    url: str
    """Base address, the value for `*_API_BASE`."""
    prefix: str
    """Prefix of the model names that it serves."""


def local_servers(ports: tuple[tuple[int, str, str], ...] = PORTS) -> list[LocalServer]:
    """Return the servers that accept a connection, in the order of `ports`. Never raises."""
    found = []
    for port, name, prefix in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(SECONDS)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                path = "" if prefix == "ollama_chat/" else "/v1"
                found.append(LocalServer(name, f"http://127.0.0.1:{port}{path}", prefix))
    return found
