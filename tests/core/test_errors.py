"""Errors are one line of bounded length for what a person typed."""

from __future__ import annotations

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
