"""Values as JSON: the keys that a dataclass shows, and what declares them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NotRequired, TypedDict

import pytest

from nexus_cli.core.json_schema import declared_keys, json_keys, json_schema, json_type
from nexus_cli.core.json_value import ABSENT, MOST_DEPTH, JsonOf, parse_nested, to_json_value


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Wheel:
    size: int
    colour: Colour = Colour.RED
    marks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Cart:
    json_fields: ClassVar = "title:name place *:wheel round:wheel.size is_heavy"
    name: str
    wheel: Wheel
    place: Path
    hidden: bytes = b""

    @property
    def is_heavy(self) -> bool:
        """True if nobody can lift it."""
        return self.wheel.size > 2


class SoldCart(JsonOf[Cart]):
    """A cart with its price."""

    price: float
    buyer: str = ABSENT


class Row(TypedDict):
    cart: JsonOf[Cart]
    note: NotRequired[str]


CART = Cart("red", Wheel(3, Colour.BLUE, frozenset("ba")), Path("/srv"))
SHOWN = ["title", "place", "size", "colour", "marks", "round", "is_heavy"]


def test_a_value_has_the_keys_that_it_shows_in_their_order() -> None:
    value = to_json_value({"one": (CART,)})["one"][0]
    assert list(value) == SHOWN
    assert value == dict(zip(SHOWN, ("red", "/srv", 3, "blue", ["a", "b"], 3, True), strict=True))


def test_its_type_has_the_same_keys_with_the_types_and_texts_of_the_attributes() -> None:
    assert list(json_keys(Cart)) == SHOWN
    assert json_keys(Cart)["colour"] == Literal["red", "blue"] and json_keys(Cart)["place"] is str
    assert declared_keys(Cart)["round"] == (Wheel, "size") and declared_keys(Cart)["is_heavy"] == (Cart, "is_heavy")


def test_a_row_adds_keys_to_those_of_its_value_and_some_may_be_absent() -> None:
    assert list(json_keys(SoldCart)) == [*SHOWN, "price", "buyer"]
    assert json_schema(SoldCart)["required"] == [*SHOWN, "price"]
    assert json_schema(Row)["required"] == ["cart"] and json_keys(Row)["cart"] is Cart
    assert SoldCart(to_json_value(CART), price=2.0)["size"] == 3


@pytest.mark.parametrize("name", ["engine.turn.PlanObject", "workers.worker.WorkerStateObject"])
def test_the_type_of_a_higher_room_is_found_by_its_path(name: str) -> None:

    assert json_type(Annotated[dict[str, object], name]).__name__ == name.rpartition(".")[2]


@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 100_000])
def test_too_many_levels_are_one_error_whether_python_reads_them_or_not(depth: int) -> None:
    assert parse_nested(json.loads, "[" * MOST_DEPTH + "]" * MOST_DEPTH)
    with pytest.raises(ValueError, match="nested too deeply: at most 64 levels"):
        parse_nested(json.loads, "[" * depth + "]" * depth)
