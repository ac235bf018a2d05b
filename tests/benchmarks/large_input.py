"""`nexus ask` with 64 MiB on stdin up to its first request, beside the same with 1 KiB: CPU and peak memory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.measure import milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.scripted import Stage, ask, stage, undisturbed

SIZE = 64 << 20
LINE = "2026-11-02 {:02d}:{:02d}:{:02d} INFO worker-{} request {} served in {} ms\n"


def log(size: int) -> str:
    """Rows of a log, `size` bytes."""
    rows = "".join(LINE.format(n // 3600, n // 60 % 60, n % 60, n % 8, n * 7919, n * 31 % 997) for n in range(86_400))
    return (rows * (size // len(rows) + 1))[:size]


def to_the_wire(here: Stage, path: Path) -> tuple[float, float]:
    """Seconds of CPU until the request arrives, and the peak of resident bytes by then. Linux."""
    peaks: list[int] = []

    def answer(number: int) -> str:
        assert here.child is not None
        status = Path(f"/proc/{here.child.pid}/status").read_text()
        peaks.append(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
        return "done"

    command = shlex.join(ask("which error came first?"))
    noted = here.watch(["sh", "-c", f"exec {command} < {shlex.quote(str(path))}"], answer, undisturbed)
    return noted.cpu[0], float(peaks[0])


def rows(times: int) -> Iterator[Row]:
    """CPU, then memory, each beside 1 KiB."""
    with stage() as here:
        settings = Path(here.scene.environment["NEXUS_HOME"]) / "config" / "config.toml"
        settings.write_text(settings.read_text().replace("2000000", "128000"))
        large, small = here.scene.folder.parent / "large.log", here.scene.folder.parent / "small.log"
        large.write_text(log(SIZE))
        small.write_text(log(1024))
        found = [(to_the_wire(here, large), to_the_wire(here, small)) for _ in range(times)]
        cpu = [milliseconds(median(one[side][0] for one in found)) for side in (0, 1)]
        peak = [median(one[side][1] for one in found) / 2**20 for side in (0, 1)]
        yield Row("64 MiB of stdin to the request", cpu[0], "ms", cpu[1], "1 KiB", 2.0)
        yield Row("peak of memory", peak[0], "MB", peak[1], "1 KiB", 2.5)


BENCHMARK = Benchmark("`nexus ask` with a large stdin", rows)
