"""Errors are one line of bounded length for what a person typed."""

from __future__ import annotations

import tracemalloc

from nexus_cli.core.errors import NexusError, UsageError


def test_a_long_value_that_was_typed_is_shortened() -> None:
    for value in ("a" * 10_000, "a b " * 3_000):
        error = UsageError(f"unknown model '{value}'", f'no "{value}"', f"It's not '{value}', isn't it")
        assert error.line.count("…") == 3 and len(error.line) < 700
        assert error.line.endswith("isn't it.") and "unknown model '" + value[:200].rstrip() in error.line


def test_what_else_an_error_says_is_whole() -> None:
    path, text = "/deep" * 150, "it's said, " * 40
    assert path in UsageError(path, "can't be read: " + text).line and text.strip() in UsageError("x", text).message
    assert len(NexusError("provider", "request failed", f"'{'x' * 5_000}'").line) > 5_000


def test_no_text_between_two_short_values_is_taken_for_a_long_one() -> None:
    why = f"'docs/' is none of these: {', '.join(['chat'] * 60)}; the default is 'ask'"
    assert UsageError("recipe", why).why == why


def test_shortening_a_large_value_takes_little_memory() -> None:
    why = f"'{'a' * 1_000_000}'"
    tracemalloc.start()
    try:
        error = UsageError("model", why)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(error.why) < 300 and peak < 10_000_000
