"""Errors with a hint for the person, and the exit status of each kind (`nexus docs exit-status`)."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from typing import Final, TypedDict

EXIT_STATUS: Final = {
    "network": 1,
    "provider": 1,
    "ledger": 1,
    "internal": 1,
    "usage": 2,
    "config": 2,
    "auth": 2,
    "limit": 3,
    "length": 3,
    "refused": 3,
    "overflow": 3,
    "schema": 3,
    "denied": 3,
    "waiting": 3,
    "contract": 4,
    "rate_limit": 75,
    "overloaded": 75,
    "aborted": 130,
}
"""Exit status by kind of error. That of `aborted` is 130, 143 or 129, depending on the signal."""
WAITING: Final = "waiting"
"""The kind that ends a turn when its run begins to wait."""
PARTIAL_KEPT: Final = "The partial answer is kept"
"""Start of a hint that is true only if the session is saved."""
FORK: Final = "Fork it: nexus sessions fork ID"
"""Hint where another process has continued the session, so that it ends here."""


LONGEST_VALUE: Final = 200
"""Most characters of a quoted value that are shown in an error of the person's input."""
_LONGEST_WORD: Final = 1_000
"""Most characters of a word without quotes, such as a path, that are shown whole."""
_VALUE = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*")|[^\s'"]+""")
"""A quoted value, or a word. The short ones match too, so that no closing quote is taken for an opening one."""
DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk."""


REDACTED: Final = "[redacted]"
"""Replacement for a secret."""


class ErrorObject(TypedDict):
    """The error of a command that ended with a status other than 0."""

    kind: str
    """See `nexus docs exit-status`."""
    message: str
    hint: str
    """Advice; may be empty."""


def _shorten_value(match: re.Match[str]) -> str:
    value = match[0]
    quote = value[0] if value[0] in "'\"" else ""
    longest = LONGEST_VALUE + 2 if quote else _LONGEST_WORD
    return value if len(value) <= longest else f"{value[: LONGEST_VALUE + len(quote)]}…{quote}"


class NexusError(Exception):
    """A failure that ends a command, in one line: `nexus: WHAT: WHY. HINT.`"""

    def __init__(self, kind: str, what: str, why: str, hint: str = "", *, exit_status: int | None = None) -> None:
        if EXIT_STATUS[kind] == EXIT_STATUS["usage"]:
            what, why, hint = (_VALUE.sub(_shorten_value, text) for text in (what, why, hint))
        super().__init__(f"{what}: {why}")
        self.kind = kind
        self.what = what
        self.why = why
        self.hint = hint
        self.exit_status = EXIT_STATUS[kind] if exit_status is None else exit_status

    @property
    def message(self) -> str:
        """Return `WHAT: WHY` on one line."""
        return " ".join(f"{self.what}: {self.why}".split())

    @property
    def sentences(self) -> str:
        """Return `WHAT: WHY. HINT.` on one line, of any length."""
        parts = filter(None, (self.message, " ".join(self.hint.split())))
        return " ".join(part if part.endswith("?") else f"{part.rstrip('.')}." for part in parts)

    @property
    def line(self) -> str:
        """Return the line for stderr, of any length."""
        return f"nexus: {self.sentences}"

    @classmethod
    def of(cls, value: ErrorObject) -> NexusError:
        """Return the error that `to_json` has described, maybe in another version."""
        what, colon, why = value["message"].partition(": ")
        kind = value["kind"] if value["kind"] in EXIT_STATUS else "refused"
        return cls(kind, what if colon else "the server", why if colon else what, value.get("hint", ""))

    def to_json(self) -> ErrorObject:
        """Return the object of the error in JSON results."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint}


class UsageError(NexusError):
    """Error of the person or program that called: a word, an option or a file that does not fit."""

    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__("usage", what, why, hint)


class AmbiguousError(UsageError):
    """A name or id that several things match."""


class InUseError(UsageError):
    """Error of a resource that is in use: a session that another process works in, an id that is taken."""


class LedgerAwayError(NexusError):
    """Error of a ledger's server that cannot be used now, whatever was to be read or written."""

    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__("ledger", what, why, hint)


class ProviderError(NexusError):
    """A failed model request."""

    def __init__(
        self,
        kind: str,
        why: str,
        hint: str = "",
        *,
        what: str = "request failed",
        retry_after: float | None = None,
        started: bool = False,
        transient: bool = False,
        cut: bool = False,
        limit: int | None = None,
        counted: int | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(kind, what, why, hint)
        self.retry_after = retry_after
        """Seconds that the provider asked us to wait, or None."""
        self.started = started
        """True if a first token had arrived: the same stream is never retried."""
        self.transient = transient
        """True if a retry with identical bytes may succeed."""
        self.cut = cut
        """True if the stream of a reply broke and a new request may succeed."""
        self.limit = limit
        """For `overflow`: the window in tokens that the provider's message names, or None."""
        self.counted = counted
        """For `overflow`: the tokens of our request that the provider's message names, or None."""
        self.status = status
        """The HTTP status of the provider's answer, None if there was none."""

    @property
    def is_away(self) -> bool:
        """True if the same request may succeed later: the provider is overloaded or not reached, or limits it."""
        return self.transient or self.cut or self.kind in ("network", "rate_limit", "overloaded")


def reason_of(error: object) -> str:
    """Return the words of an error: those of the system if it has some."""
    return getattr(error, "strerror", None) or str(error)


def write_failure_hint(error: OSError, otherwise: str) -> str:
    """Return a hint for a failed write: to free space if the disk is full, else `otherwise`."""
    return "Free some space" if error.errno in DISK_FULL_ERRORS else otherwise


def nearest_name(name: str, names: Iterable[str], least: float = 0.6) -> str:
    """Return the name most similar to a misspelt `name`, "" if no similarity (0 to 1) is at least `least`."""
    import difflib  # noqa: PLC0415  (only on the way to an error message)

    return next(iter(difflib.get_close_matches(name[:80], list(names), 1, least)), "")


def suggest_name(name: str, names: Iterable[str], otherwise: str, least: float = 0.6) -> str:
    """Return the hint `Did you mean X?` with the name that `nearest_name` finds, else `otherwise`."""
    near = nearest_name(name, names, least)
    return f"Did you mean {near}?" if near else otherwise


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and its causes, nearest first, each once."""
    yielded: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting and len(yielded) < 12:
        current = waiting.pop(0)
        if current is None or any(current is s for s in yielded):
            continue
        yielded.append(current)
        yield current
        original = getattr(current, "original_exception", None)
        waiting += [original if isinstance(original, BaseException) else None, current.__cause__, current.__context__]
