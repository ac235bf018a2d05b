"""Diagnose a cache miss: caused by us, by time, or by the provider.

Pure. The facts come from `model_call` for a running session and from `request_history` for the ledger; both use
`SentRequest.compare`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nexus_cli.conversation.fingerprints import SYSTEM, Difference
from nexus_cli.provider.prompt_cache import CacheLife

SLACK_SHARE = 0.01
"""Share of a request by which a provider's count may vary between requests."""
ESTIMATED = 0.25
"""Share by which our count of a common prefix may be too high: providers encode tools in fewer tokens than their
JSON."""
CAUSES: Mapping[str, str] = {
    "truncation": "older messages were dropped to make room",
    "compaction": "compaction",
    "overflow": "compaction after the provider rejected a request as too long",
    "pruned": "stale results were removed",
    "model": "a model or effort change",
    "reload": "a reload",
    "resume": "a run resumed after waiting",
    "window": "sections were re-planned for a smaller window",
    "refused": "rejected images were removed",
    "undo": "a compaction was undone",
}
"""Descriptions of epoch causes; other causes are shown as they are."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The tokens that missed the cache, and the cause."""

    kind: str
    """`hit`, `first`, `none` (no known cache), `minimum`; caused by nexus: `model`, `tool`, `section`, `effort`,
    `message`, `order`; else `expired`, `provider`, `unknown`."""
    missed: int = 0
    """Tokens; 0 without a miss."""
    ours: bool | None = None
    """True if nexus caused the miss; null without a miss or if the cause is unknown."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Figures of an answered request and of its predecessor in the conversation, and their first difference."""

    life: CacheLife | None
    """Cache lifetime of its model."""
    input: int
    read: int
    before: int = 0
    """Input tokens of the previous request; 0 if there was none."""
    shared: int = 0
    """Tokens of the prefix in common with the previous request."""
    age: float | None = None
    """Seconds since the last use of the common prefix; None if unknown."""
    difference: Difference | None = None
    """The first difference; computed only after a miss."""
    cause: str = ""
    """Cause of its epoch if that differs from the previous request's; else ""."""
    source: str = ""
    """Source of the section that differs."""
    fresh: int = 0
    """Tokens of a new epoch's request that no earlier one contained; they cannot be a miss."""
    proven: bool = True
    """True if the provider has reported cache use in this session; otherwise it may have no cache."""
    former: CacheLife | None = None
    """Cache lifetime of the previous request's model."""

    @property
    def expected(self) -> int:
        """Tokens of the common prefix that should still have been cached."""
        return expected_cached(self.life, self.shared, self.age)

    def diagnose(self) -> Diagnosis:
        """Diagnose the miss: its tokens and the first sufficient cause."""
        life = self.life
        if self.before <= 0:
            return Diagnosis("first", why="first request, nothing to compare")
        if life is None:
            return Diagnosis("none", why="this provider has no known cache")
        if self.before < life.min_tokens:
            return Diagnosis("minimum", why=f"the provider caches nothing below {life.min_tokens:,} tokens")
        if not self.proven:
            return Diagnosis("none", why="the provider has not reported any cache use yet")
        expected = max(0, min(self.before, self.input - self.fresh))
        missed = expected - self.read
        if missed <= tolerated_miss(life, expected):
            return Diagnosis("hit")
        return self._diagnose_miss(life, missed)

    def _diagnose_miss(self, life: CacheLife, missed: int) -> Diagnosis:
        """Find the cause of a miss. A change explains only the tokens after it."""
        difference, former_life = self.difference, self.former or life
        lost = difference is None or self._is_lost(life)
        besides = f"; also, {self.describe_change(difference)}" if difference else ""
        if lost is not False and self.age is not None and self.age > former_life.max_seconds:
            return Diagnosis("expired", missed, False, _expired(former_life, self.age) + besides)
        if difference is not None and not lost:
            return Diagnosis(difference.kind, missed, True, self.describe_change(difference))
        if self.age is None:
            return Diagnosis("unknown", missed, None, f"it is unknown when the cache was last used{besides}")
        if self.age > former_life.min_seconds:
            return Diagnosis("expired", missed, False, _expired(former_life, self.age) + besides)
        if difference is not None:
            why = f"the provider did not cache even the {self.shared:,} unchanged tokens{besides}"
            return Diagnosis("provider", missed, False, why)
        return Diagnosis(
            "provider", missed, False, "the provider did not cache the prefix, although it had not changed"
        )

    def _is_lost(self, life: CacheLife) -> bool | None:
        """True if the unchanged prefix was not read from the cache; None if it is too short to tell."""
        if self.shared < life.min_tokens:
            return None
        return self.read < self.shared * (1 - ESTIMATED) - tolerated_miss(life, self.shared)

    def describe_change(self, difference: Difference) -> str:
        """Describe our change and its cause in one line."""
        by = f": {CAUSES.get(self.cause, self.cause)}" if self.cause else ""
        match difference.kind:
            case "model":
                return f"the model was switched from {difference.before or '?'} to {difference.after or '?'}"
            case "effort":
                before, after = difference.before or "default", difference.after or "default"
                return f"the {difference.what} was changed from {before} to {after}"
            case "message":
                after = difference.after.removesuffix(f" of {difference.before}")
                return (
                    f"{difference.before} became {after}{by}"
                    if difference.before != difference.after
                    else f"{difference.what}{by}"
                )
            case "order":
                return f"the order of the {difference.what} changed, starting at {difference.before}{by}"
            case kind:
                how = (
                    "changed"
                    if difference.before and difference.after
                    else "was added"
                    if difference.after
                    else "was removed"
                )
                part = difference.what if difference.what == SYSTEM else f"{kind} {difference.what}"
                return f"the {part} {how}{f' ({self.source})' if self.source else ''}{by}"


def expected_cached(life: CacheLife | None, shared: int, seconds: float | None) -> int:
    """Return the tokens of a prefix of `shared` tokens that should still be cached `seconds` after its last use."""
    if life is None or shared < life.min_tokens or (seconds is not None and seconds > life.max_seconds):
        return 0
    return shared - shared % life.step


def tolerated_miss(life: CacheLife, tokens: int) -> int:
    """Return the uncached tokens out of `tokens` that still count as a hit."""
    return 2 * life.step + int(SLACK_SHARE * tokens)


def _expired(life: CacheLife, seconds: float) -> str:
    least, most = format_duration(life.min_seconds), format_duration(life.max_seconds)
    lifetime = least if life.min_seconds == life.max_seconds else f"{least} to {most}"
    usual = "" if life.documented else " (undocumented)"
    surely = "the cache had expired" if seconds > life.max_seconds else "the cache had probably expired"
    return f"{surely}: unused for {format_duration(seconds)}, lifetime {lifetime}{usual}"


def format_duration(seconds: float) -> str:
    """Format a duration for display: `40 s`, `7 min`, `3 h`, `2 days`."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * length if unit == "days" else length):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
