"""A tool's definition has the parameters of its dataclass, and a call the dataclass of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from tools.definitions import DEFINITIONS, schema_of, update

from nexus_cli.core.memory import MemorySlot
from nexus_cli.tools.schema import check_arguments, make_arguments


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.stem)
def test_a_definition_has_the_parameters_of_its_dataclass(definition: Path) -> None:
    assert definition.read_text(encoding="utf-8") == update(definition), "python tests/tools/definitions.py"


@dataclass(frozen=True, slots=True)
class Step:
    """An object within the arguments."""

    text: str
    slot: MemorySlot | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Arguments with every kind of field."""

    steps: tuple[Step, ...]
    in_: Annotated[int | None, {"minimum": 1}] = None
    first: Step = Step("none")


def test_arguments_become_the_dataclass_with_the_objects_in_it() -> None:
    given = {"steps": [{"text": "a", "slot": "agent"}, {"text": "b", "names": ["c"]}], "in": 2, "first": {"text": "d"}}
    checked, faults = check_arguments(given, schema_of(Steps))
    made = Steps((Step("a", MemorySlot.AGENT), Step("b", names=("c",))), 2, Step("d"))
    assert make_arguments(Steps, checked) == made and not faults
    assert make_arguments(Steps, {"steps": []}) == Steps(())
