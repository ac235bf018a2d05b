"""The bare loop that the REPL is measured beside: a prompt of prompt-toolkit, with an answer that streams above it.

A program for a pseudo-terminal: `bare_prompt.py [URL]` asks the chat endpoint at URL once and prints each delta as it
arrives, as the library's own manual does it; without URL nothing is printed. Ends with Ctrl+D.
"""

from __future__ import annotations

import asyncio
import json
import sys
from urllib.parse import urlsplit

from prompt_toolkit import PromptSession
from prompt_toolkit.patch_stdout import patch_stdout

ASKED = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "go"}]}


async def answer(url: str) -> None:
    """Print the deltas of one answer."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    body = json.dumps(ASKED).encode()
    head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            sys.stdout.write(choice["delta"].get("content") or "")


async def loop(url: str) -> None:
    """The prompt, until the end of input."""
    with patch_stdout():
        task = asyncio.create_task(answer(url)) if url else None
        try:
            while True:
                await PromptSession[str]("> ").prompt_async()
        except EOFError:
            if task:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(loop(sys.argv[1] if len(sys.argv) > 1 else ""))
