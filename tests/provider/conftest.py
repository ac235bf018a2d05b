"""Fixtures of the provider's tests."""

from __future__ import annotations

from server.fixtures import model_server, start_server

__all__ = ["model_server", "start_server"]
