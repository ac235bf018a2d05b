"""Kinds of memos that more than one part reads. The others stand beside the one that writes them."""

from __future__ import annotations

PLAN = "plan"
"""Memo of a request that told something: `epoch`, `told` (section to the hash of its whole text), `pool`, `raised` and
`sections` as in interface.md section 8. Its entry is the newest one that the request held."""
TRIGGER = "trigger"
"""The kind of memo that says what started a turn, where the person did not type it."""
