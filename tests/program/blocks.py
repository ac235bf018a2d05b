"""Ways in which a model library blocks the event loop, put under the real program before it starts."""

from __future__ import annotations

BLOCKS = {
    "a loop that spins": "while True: pass",
    "a call that a signal ends": "time.sleep(600)",
    "a call in C that no signal ends": "lock = ctypes.create_string_buffer(64); c.pthread_mutex_lock(lock); "
    "c.pthread_mutex_lock(lock)",
    "a search that holds the interpreter's lock": "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')",
    "a loop that swallows what is raised in it": """
while True:
    try:
        time.sleep(600)
    except BaseException:
        pass
""",
}
BUG = """
import ctypes, os, time
from nexus_cli.cli import loop_watchdog
from nexus_cli.provider.open_stream import OpenStream
loop_watchdog.TICK = 0.1
c = ctypes.CDLL(None)
opened = OpenStream.open

async def open(self, call, made):
    await opened(self, call, made)
    self.chunks = after_two(self.chunks)

async def after_two(chunks):
    left = 2
    async for chunk in chunks:
        yield chunk
        left -= 1
        if not left:
            block()

def block():
    os.makedirs("blocked", exist_ok=True)
    {block}

OpenStream.open = open
"""


def bug(block: str) -> str:
    """Return Python that blocks the loop after the second chunk of an answer, in the way of this name."""
    return BUG.format(block=BLOCKS[block].strip().replace("\n", "\n    "))


def deaf_bug() -> str:
    """Return Python that goes on for ever after the second chunk, on a loop that lives, whatever cancels it."""
    deaf = """
            while True:
                try:
                    await asyncio.sleep(1)
                except BaseException:
                    pass
"""
    made = BUG.replace("import ctypes, os", "import asyncio, ctypes, os").replace("            block()\n", deaf[1:])
    return made.format(block="pass")
