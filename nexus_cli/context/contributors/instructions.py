"""The NEXUS.md layers (seed A), each a section of its own under a header that names its folder.

Together they take at most the instruction cap: short layers stay whole, the long ones share what is left and lose
their middle, which becomes a drop of cause `instruction_cap`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from nexus_cli.context.contributors import Contributor, Sources, Value, View
from nexus_cli.context.loader import ContextLayer
from nexus_cli.context.section import DROP, Cut, Layer, Phase, Section
from nexus_cli.core.clip import clip, drop_marker
from nexus_cli.core.message import sound
from nexus_cli.core.paths import project

SLOTS = {"global": 8, "ancestor": 9, "local": 10}
PRIORITY = 92


async def read(sources: Sources) -> Value:
    """One record per layer: `id`, `slot`, `header`, `text`, `source`, `notice`, from the outermost to the innermost."""
    layers = await asyncio.to_thread(sources.instructions)
    root = project(sources.cwd)
    return [
        {
            "id": _id(layer, number),
            "slot": SLOTS[layer.name],
            "header": sound(layer.header),
            "text": sound(layer.text),
            "source": sound(_source(layer.path or layer.folder, root)),
            "notice": layer.notice,
        }
        for number, layer in enumerate(layers)
    ]


def render(value: Value, view: View) -> tuple[Section, ...]:
    """One section per layer; those that have to be cut have a second form and a `cut`."""
    sizes = [view.count(layer["text"]) for layer in value]
    shares = share(sizes, view.instruction_cap - sum(view.count(layer["header"]) for layer in value))
    sections = []
    for layer, size, room in zip(value, sizes, shares, strict=True):
        forms, cut = [layer["text"]], None
        if size > room:
            clipped = clip(layer["text"], room, view.count, drop_marker(DROP))
            cut = None if clipped.whole else Cut(layer["text"], clipped.start, clipped.end, clipped.tokens)
            forms += [clipped.text] if cut else []
        sections.append(
            Section(
                layer["id"],
                Phase.CONSTRAINT + layer["slot"],
                tuple(f"{layer['header']}\n{form}" for form in forms),
                Layer.SYSTEM,
                PRIORITY,
                sticky=True,
                source=layer["source"],
                cut=cut,
            )
        )
    return tuple(sections)


def share(sizes: Sequence[int], room: int) -> list[int]:
    """How much of `room` each gets: the small ones all they need, the others equal parts of the rest."""
    shares = [0] * len(sizes)
    for done, index in enumerate(sorted(range(len(sizes)), key=lambda index: (sizes[index], index))):
        shares[index] = min(sizes[index], max(0, room) // (len(sizes) - done))
        room -= shares[index]
    return shares


def _id(layer: ContextLayer, number: int) -> str:
    match layer.name:
        case "global":
            return "instructions.global"
        case "ancestor":
            return f"instructions.ancestor.{number:02}"
        case "local":
            return "instructions.project"


def _source(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def notices(value: Value) -> Sequence[str]:
    """How the files were decoded, where that was not plain."""
    return [layer["notice"] for layer in value if layer["notice"]]


CONTRIBUTOR = Contributor("instructions", Layer.SYSTEM, read, render, notices)
