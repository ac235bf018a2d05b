"""The server's own counter and its cache."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from server.blocks import content
from server.meter import Meter
from server.tokens import Tokens

MARK = {"cache_control": {"type": "ephemeral"}}


def used(meter: Meter, body: dict[str, Any], form: str, model: str = "m") -> Tokens:
    made = content(body, form)
    return meter.request(made, meter.sizes(made), form, model)


def chat(*texts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def test_an_image_counts_by_itself_and_not_by_its_bytes() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    assert used(Meter(overhead=0), {"messages": [{"role": "user", "content": [image]}]}, "chat").input == 1000


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_cached_tokens_are_the_longest_shared_beginning(first: list[str], second: list[str]) -> None:
    meter = Meter()
    used(meter, chat(*first), "chat")
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    assert used(meter, chat(*second), "chat").cache_read == shared * 5


def test_the_cache_belongs_to_a_model_and_can_expire() -> None:
    meter = Meter()
    assert used(meter, chat("a"), "chat").cache_read == 0
    assert used(meter, chat("a"), "chat", "other").cache_read == 0
    assert used(meter, chat("a"), "chat").cache_read == 5
    meter.forget()
    assert used(meter, chat("a"), "chat").cache_read == 0


def anthropic(count: int, *marks: int) -> dict[str, Any]:
    parts = [{"type": "text", "text": f"part {n}", **(MARK if n in marks else {})} for n in range(count)]
    return {"messages": [{"role": "user", "content": parts}]}


def test_anthropic_reads_and_writes_only_what_was_marked() -> None:
    meter = Meter(overhead=0)
    assert used(meter, anthropic(3), "anthropic") == Tokens(input=3)
    assert used(meter, anthropic(3, 1), "anthropic") == Tokens(input=3, cache_write=2)
    assert used(meter, anthropic(5, 4), "anthropic") == Tokens(input=5, cache_read=2, cache_write=3)
    assert used(meter, anthropic(5), "anthropic") == Tokens(input=5)


def test_anthropic_looks_back_twenty_blocks_from_a_mark() -> None:
    near, far = Meter(overhead=0), Meter(overhead=0)
    for meter, count in ((near, 21), (far, 22)):
        used(meter, anthropic(2, 1), "anthropic")
        assert (used(meter, anthropic(count, count - 1), "anthropic").cache_read > 0) is (meter is near)
