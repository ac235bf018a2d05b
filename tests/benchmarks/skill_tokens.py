"""Tokens that skills put into a request: the section `skills` of the next request with 0, 10, 100 and 1,000 of them,
each with a description of 90 characters. The first are described, the next named, and the rest is a drop.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

from benchmarks.measure import NEXUS, scene
from benchmarks.row import Benchmark, Row

DESCRIBED = "Cut a release of part {:04d}: bump the version, write the changelog and tag it. Use it then."


def count(number: int) -> int:
    """Tokens of the section with this many skills of one's own."""
    with scene(NEXUS_MODEL="openai/gpt-5", OPENAI_API_KEY="sk-nobody") as here:
        for one in range(number):
            folder = here.folder.parent / ".agents" / "skills" / f"release-{one:04d}"
            folder.mkdir(parents=True)
            text = f"---\nname: {folder.name}\ndescription: {DESCRIBED.format(one)}\n---\nDo it.\n"
            (folder / "SKILL.md").write_text(text)
        command = (NEXUS, "context", "--json")
        done = subprocess.run(command, cwd=here.folder, env=dict(here.environment), capture_output=True, check=True)
        sections = json.loads(done.stdout)["sections"]
        return sum(one["tokens"] for one in sections if one["id"] == "skills")


def rows(times: int) -> Iterator[Row]:
    """The same at each run: nothing is repeated."""
    for number, most in ((0, 0.0), (10, 400.0), (100, 2200.0), (1000, 2400.0)):
        yield Row(f"tokens of {number:,} skills in a request", float(count(number)), "", most=most)


BENCHMARK = Benchmark("what skills cost in a prompt", rows)
