"""The gate for images: what every provider takes, and why the rest is not sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from images import gif, jpeg, png, webp

from nexus_cli.core.image_check import MAX_BYTES, MAX_SIDE, describe_bad_image

MADE: dict[str, Callable[[int, int], bytes]] = {
    "png": png,
    "jpeg": jpeg,
    "gif": gif,
    "webp": lambda w, h: webp(w, h, b"VP8X"),
    "lossless": lambda w, h: webp(w, h, b"VP8L"),
    "lossy": lambda w, h: webp(w, h, b"VP8 "),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_whole_image_up_to_the_largest_side_is_taken(kind: str) -> None:
    assert describe_bad_image(MADE[kind](MAX_SIDE, 3)) == describe_bad_image(MADE[kind](3, MAX_SIDE)) == ""
    assert describe_bad_image(MADE[kind](300, MAX_SIDE + 1)).startswith("it has 300 x 8,001 pixels")


@pytest.mark.parametrize("kind", MADE)
def test_an_image_that_was_cut_off_is_not_taken_wherever_it_ends(kind: str) -> None:
    whole = MADE[kind](40, 30)
    for end in range(len(whole)):
        assert "not a complete" in describe_bad_image(whole[:end]), end


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a complete PNG, JPEG, GIF or WebP"),
        (b"a text", "not a complete PNG, JPEG, GIF or WebP"),
        (b"\x89PNG\r\n\x1a\n" + b"garbage" * 90, "not a complete PNG"),
        (png(60_000, 60_000), "60,000 x 60,000 pixels"),
        (png(0, 4), "0 x 4 pixels"),
        (png().replace(b"IHDR\0\0\0\1", b"IHDR\0\0\0\2"), "not a complete PNG"),
        (png(extra=MAX_BYTES), "bytes; at most 3,900,000"),
        (jpeg(9, 9, thumbnail=jpeg(1, 1))[:-9], "not a complete JPEG"),
    ],
)
def test_what_a_provider_would_refuse_is_named(data: bytes, why: str) -> None:
    assert why in describe_bad_image(data)


def test_what_cameras_write_behind_an_image_does_no_harm() -> None:
    assert describe_bad_image(jpeg(9, 9, thumbnail=jpeg(1, 1)) + b"SEFT") == describe_bad_image(png() + b"\0") == ""


@given(st.sampled_from(sorted(MADE)), st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_are_answered(kind: str, junk: bytes, at: int) -> None:
    whole = MADE[kind](9, 9)
    assert isinstance(describe_bad_image(whole[:at] + junk + whole[at:]), str)
