"""Wall time of a session's first seconds: start to prompt, key to echo at an idle prompt, Enter to the first token.

Enter is typed as soon as keys are read, while the model's library is still being imported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.key_to_echo import RATE
from benchmarks.measure import milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import bare
from benchmarks.typed import DELTAS, Typed, echoes, seen, typed
from terminal.terminal import ENTER, Terminal

KEYS = 32
PROMPT_READY = "\x1b[?2004h"
"""Switches bracketed paste on: keys are read from then on."""
SETTLE = 3.0
"""Seconds until the imports in the background are over."""


def until(terminal: Terminal, text: str, since: float) -> float:
    """Return the seconds from `since` until the terminal is sent `text`."""
    seen(terminal, text)
    return time.perf_counter() - since


def of_nexus(here: Typed) -> tuple[float, float]:
    """Return start to prompt and Enter to first token of one session, in seconds."""
    began = time.perf_counter()
    with here.nexus_prompt() as terminal:
        prompt = until(terminal, PROMPT_READY, began)
        began = time.perf_counter()
        terminal.send("go" + ENTER)
        return prompt, until(terminal, "word", began)


def of_bare(here: Typed) -> tuple[float, float]:
    """Return start to prompt of the bare loop and start to first token of the bare litellm script, in seconds."""
    began = time.perf_counter()
    with here.bare(answers=False) as terminal:
        prompt = until(terminal, PROMPT_READY, began)
    began = time.perf_counter()
    with here.start([*bare(1, here.scene.folder), "--print"]) as terminal:
        return prompt, until(terminal, "word", began)


def idle_echoes(here: Typed) -> tuple[list[float], list[float]]:
    """Return key to echo of nexus and of the bare loop while nothing else happens, in seconds."""
    with here.nexus_prompt() as terminal:
        seen(terminal, PROMPT_READY)
        time.sleep(SETTLE)
        nexus = echoes(terminal, KEYS)
    with here.bare(answers=False) as terminal:
        return nexus, echoes(terminal, KEYS)


def rows(times: int) -> Iterator[Row]:
    """Sessions in turns with the bare programs; a tenth as many rounds of keys."""
    with typed((DELTAS, str(RATE))) as here:
        rounds = [(*of_nexus(here), *of_bare(here)) for _ in range(times + 1)][1:]
        prompt, token, bare_prompt, bare_token = (milliseconds(median(taken)) for taken in zip(*rounds, strict=True))
        yield Row("start to prompt", prompt, "ms", bare_prompt, "bare loop", 6.0)
        yield Row("Enter at once to first token", token, "ms", bare_token, "bare litellm script, from start", 1.2)
        keys = [idle_echoes(here) for _ in range(max(1, times // 10))]
        nexus, loop = (milliseconds(median(taken for pair in keys for taken in pair[side])) for side in (0, 1))
        yield Row("key to echo, idle, 50% of keys", nexus, "ms", loop, "bare loop, no deltas", 3.0)


BENCHMARK = Benchmark("a session's first seconds, wall time", rows)
