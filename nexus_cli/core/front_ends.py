"""The front ends of sessions, by the names that the ledger has."""

from __future__ import annotations

CHAT = "chat"
RUN = "ask"
"""Front of a session that only `nexus ask` used."""
SERVED = "serve"
"""Front of a session that clients of a server use."""
FRONTS = (CHAT, RUN)
"""Those with a default recipe of their name: a session started in one can resume in the other."""
