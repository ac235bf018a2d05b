"""The types of the report on instruction files."""

from __future__ import annotations

from typing import Literal, TypedDict

from nexus_cli.core.json_types import VersionedReport


class InstructionFileObject(TypedDict):
    """One instruction file, with its price in every request that has it."""

    path: str
    kind: Literal["instructions", "import", "rule"]
    paths: list[str]
    """The globs of a rule, or the folder of a file, that is sent with the first file there."""
    tokens: int
    cost_usd: float | None
    """For as many requests as the report says, read from the cache; null if the price is unknown."""


class InstructionFinding(TypedDict):
    """One line, or a whole file, that could be shorter or is wrong."""

    kind: Literal["duplicate", "contradiction", "stated", "long", "problem"]
    path: str
    line: int
    """0 for the whole file."""
    text: str
    other: str
    """The location of the text that this one repeats or contradicts."""


class InstructionsReport(VersionedReport):
    """`nexus doctor --instructions --json`."""

    model: str | None
    requests: int
    tokens: int
    """Of the files that go with every request."""
    cap: int
    cost_usd: float | None
    files: list[InstructionFileObject]
    findings: list[InstructionFinding]
