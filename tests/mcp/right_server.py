"""A server as the SDK makes it: on stdin and stdout, or with `http PORT` on the loopback interface."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("right")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def picture() -> Image:
    """Show a picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ValueError("not today")


@server.resource("note://one", name="one")
def note() -> str:
    """The note."""
    return "the note"


@server.prompt()
def review(file: str) -> str:
    """Review code."""
    return f"Review {file}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
