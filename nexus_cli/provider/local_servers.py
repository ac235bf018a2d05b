"""Model servers found on the loopback address.

Owns the four ports to look at. Nothing is sent to a port that answers. Imports nothing of this room: a start without a
model looks here.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

SECONDS = 0.05
"""Patience with one port."""
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
    """Base address: what `*_API_BASE` wants."""
    prefix: str
    """Prefix of a model's name that leads to it."""


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
