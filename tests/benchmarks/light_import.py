"""What a cold start costs besides the model's answer: CPU until the provider is called, and the import of litellm; and
what it costs to trust the system's certificates."""

from __future__ import annotations

import shutil
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import certifi
from benchmarks.measure import PASS, in_turns, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import MODEL, Stage, stage

from nexus_cli.core.certificates import certificate_file

TO_PROVIDER = """
import os
from nexus_cli.provider.litellm_backend import LitellmBackend
LitellmBackend.stream = lambda backend, request: os._exit(0)
LitellmBackend.prepare = lambda backend: None
from nexus_cli.__main__ import main
main()
"""
"""`nexus ask` up to the call of the provider, as a program of a child process."""
IMPORT = """
import os, resource, sys
from contextlib import nullcontext
from nexus_cli.provider import litellm_backend
if "plain" in sys.argv:
    litellm_backend.light_imports = nullcontext
litellm_backend.litellm()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
os._exit(0)
"""
"""The import, lightly or plainly; prints the peak of memory in kilobytes."""


def to_provider(here: Stage, *, fresh: bool) -> float:
    """Seconds of CPU until the provider is called, in a home that has seen `nexus ask`, or in a `fresh` one."""
    if fresh:
        shutil.rmtree(Path(here.scene.environment["NEXUS_HOME"]) / "data", ignore_errors=True)
    return here.scene.run([sys.executable, "-c", TO_PROVIDER, "ask", "--model", MODEL, "hi"])


def read_certificates(file: str) -> float:
    """Seconds of CPU for a context that trusts the certificates of `file`."""
    began = time.process_time()
    ssl.create_default_context(cafile=file)
    return time.process_time() - began


def rows(times: int) -> Iterator[Row]:
    """The start in turns with an interpreter that does nothing, then both imports in turns."""
    with stage() as here:
        fresh, value, base = in_turns(
            times,
            lambda: to_provider(here, fresh=True),
            lambda: to_provider(here, fresh=False),
            lambda: here.scene.run(PASS),
        )
        yield Row("start to the call of the provider", milliseconds(value), "ms", milliseconds(base), "python -c pass")
        yield Row("the same in a new home", milliseconds(fresh), "ms", milliseconds(base), "python -c pass")
        commands = [[sys.executable, "-c", IMPORT, how] for how in ("light", "plain")]
        value, base = in_turns(times, *(lambda command=command: here.scene.run(command) for command in commands))
        yield Row("import of litellm", milliseconds(value), "ms", milliseconds(base), "imported plainly", 0.7)
        light, plain = (median(int(here.scene.child(command).printed) / 1000 for _ in range(3)) for command in commands)
        yield Row("peak of memory after it", light, "MB", plain, "imported plainly", 0.8)
    if system := certificate_file():
        value, base = in_turns(times, lambda: read_certificates(system), lambda: read_certificates(certifi.where()))
        yield Row(
            "a context with the system's certificates", milliseconds(value), "ms", milliseconds(base), "certifi's"
        )


BENCHMARK = Benchmark("a cold start until litellm is there", rows)
