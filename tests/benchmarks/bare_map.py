"""The bare loop that `nexus map` is measured beside: one litellm request per file, so many at once, and nothing else.

A program for a child process: `bare_map.py JOBS FILES...` prints a JSON line per file as it finishes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path


async def work(jobs: int, files: list[str]) -> None:
    """The loop."""
    import litellm
    from benchmarks.bare import reply

    litellm.suppress_debug_info = True
    free = asyncio.Semaphore(jobs)

    async def ask(name: str) -> None:
        async with free:
            messages = [
                {"role": "system", "content": "You are a coding agent. " * 100},
                {"role": "user", "content": f"Summarize {name}\n\n{Path(name).read_text()}"},
            ]
            answer = await reply(litellm.acompletion, messages)
            print(json.dumps({"item": name, "text": answer["content"]}), flush=True)

    await asyncio.gather(*map(ask, files))


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ |= {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
        "LITELLM_LOG": "ERROR",
    }
    asyncio.run(work(int(sys.argv[1]), sys.argv[2:]))
