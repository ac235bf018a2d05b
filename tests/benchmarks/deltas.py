"""A model that sends deltas at an exact rate: `deltas.py RATE`, a program that prints its port and serves until killed.

The scripted server sleeps before each delta, which a clock of a millisecond makes 467 or 850 a second; here every delta
has its time on a schedule, and one that is late does not delay the next.
"""

from __future__ import annotations

import asyncio
import json
import sys

PROSE = "word after word of an answer that goes on, line by line\nand by paragraphs.\n\n- an item\n- another one\n\n"
PIECE = 6
"""Characters of one delta."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(number: int) -> bytes:
    """Delta `number` as it goes out."""
    start = number * PIECE % len(PROSE)
    text = (PROSE + PROSE)[start : start + PIECE]
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def serve(rate: float) -> None:
    """Answer every request without an end."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD)
            loop = asyncio.get_running_loop()
            began, number = loop.time(), 0
            while True:
                while number <= (loop.time() - began) * rate:
                    writer.write(event(number))
                    number += 1
                await writer.drain()
                await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
