"""The ways in which the body of an answer ends on the wire, as data (RFC 9112 section 6.3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Framing:
    """How one body is delimited, and what becomes of its connection."""

    body: str
    """`chunked`, `length`, or `none`: the body ends where the connection does."""
    version: str = "1.1"
    connection: str = ""
    """Value of the Connection header; "" sends none."""
    hang_up: bool = False
    """The server closes the connection after the body."""


FRAMINGS = {
    "chunked": Framing("chunked"),
    "chunked-announced": Framing("chunked", connection="close", hang_up=True),
    "chunked-hang-up": Framing("chunked", hang_up=True),
    "length": Framing("length"),
    "length-announced": Framing("length", connection="close", hang_up=True),
    "length-hang-up": Framing("length", hang_up=True),
    "close": Framing("none", connection="close", hang_up=True),
    "close-unannounced": Framing("none", hang_up=True),
    "http10": Framing("none", version="1.0", hang_up=True),
    "http10-length": Framing("length", version="1.0", hang_up=True),
    "http10-keep-alive": Framing("length", version="1.0", connection="keep-alive"),
}
"""Every way, by its name in a script."""
