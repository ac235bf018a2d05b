"""Format the status line: the session's state on one line, each fact once. As the width shrinks, the least important
facts are left out first."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.config.paths import is_below
from nexus_cli.core.front_ends import FRONTS
from nexus_cli.core.limits import ALL, UNASKED
from nexus_cli.reports.text.lines import dollars, known_dollars, plural, short_thousands
from nexus_cli.session.status import Status
from nexus_cli.text.cells import cells, cut, cut_start, one_line, without_codes
from nexus_cli.ui.render.theme import Theme

HIGH, CRITICAL = 0.6, 0.8
"""Shares of the budget from which the window counts as nearly full."""
MIN_SAVED = 0.01
"""Dollars from which on what the cache saved is shown."""
QUIET_ROLES = ("dim", "ok")
"""Roles of facts that call for no attention."""
FOLDER = 32
"""Most cells of a folder's name, whose end is kept."""


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    text: str
    role: str = "dim"


_OMITTED_FIRST = tuple(
    """
    savings server effort path recipe cache branch folder why addresses ids drops uncached cold until workers jobs
    tokens sandbox waits asking model unsaved level cost
    """.split()
)
"""Parts in the order in which they are left out. The use of the window always stays, without `tokens` as a share, and
so does a level of `UNASKED`."""


def status_line(status: Status, width: int, theme: Theme, home: str = "", own: str = "") -> str:
    """Return `status` in at most `width` - 1 cells: model, level, folder, branch and server, context, workers,
    jobs, the command worked for, the current wait, runs that ask, drops, cache, cost, what the cache saved.

    `own` is the line of the person's command: only what calls for attention stands beside it.
    """
    room = max(0, width - 1)
    omitted: set[str] = set()
    waiting = [name for name in _OMITTED_FIRST if name != "level" or status.allow not in UNASKED]
    while True:
        parts = _parts(status, theme, home, omitted)
        if own:
            parts = [
                _Part("own", own),
                *(part for part in parts if part.name != "model" and part.role not in QUIET_ROLES),
            ]
        line = f" {theme.paint('dim', theme.signs.dot)} ".join(theme.paint(part.role, part.text) for part in parts)
        if cells(without_codes(line)) <= room:
            return line
        if not waiting and own:
            return theme.paint("dim", theme.cut(own, room))
        if not waiting:
            return theme.paint(parts[0].role, cut(parts[0].text, room))
        omitted.add(waiting.pop(0))


def _parts(status: Status, theme: Theme, home: str, omitted: set[str]) -> list[_Part]:
    """Return the parts without those in `omitted`."""
    role, sign = _pressure(status)
    used = f"{short_thousands(status.used) if status.used else '-'} of {short_thousands(status.budget)}"
    used = f"{_share(status):.0%}" if "tokens" in omitted else used
    effort = f" {one_line(status.effort)}" if status.effort and "effort" not in omitted else ""
    recipe = one_line(status.recipe)
    place = _place(status.folder, home, theme, is_full="path" not in omitted) if "folder" not in omitted else ""
    branch = theme.cut(one_line(status.branch), FOLDER) if "branch" not in omitted else ""
    branch_text = f" ({branch})" if branch else ""
    waits = theme.cut(f"waits: {one_line(status.waits)}", FOLDER) if status.waits else ""
    until = theme.cut(f"until {one_line(status.until)}", FOLDER) if status.until else ""
    waits = "waiting" if waits and "why" in omitted else waits
    cost = known_dollars(status.cost_usd, status.known_usd)
    cold = f"next {dollars(status.cold_usd)} uncached" if status.cold_usd else "next uncached" if status.cold else ""
    cold = cold.removesuffix(" uncached") if status.cold_usd and "uncached" in omitted else cold
    jobs = plural(len(status.jobs), "job") if status.jobs else ""
    addresses_by_job = {
        address.partition(" ")[0]: address for address in status.addresses if "addresses" not in omitted
    }
    jobs += (
        f" {' '.join(addresses_by_job.get(job, job) for job in status.jobs)}" if jobs and "ids" not in omitted else ""
    )
    parts = [
        _Part("model", _model(status.model) + effort, "accent"),
        _Part("level", one_line(status.allow), "warn" if status.allow == ALL else "dim"),
        _Part("sandbox", "" if status.has_sandbox else "sandbox: none", "warn"),
        _Part("recipe", recipe if recipe not in FRONTS else ""),
        _Part("folder", (place + branch_text).strip()),
        _Part("server", f"at {one_line(status.server)}" if status.server else ""),
        _Part("used", used + sign, role),
        _Part("workers", plural(status.workers, "worker") if status.workers else "", "accent"),
        _Part("jobs", jobs, "accent"),
        _Part("until", until, "accent"),
        _Part("waits", waits, "accent"),
        _Part("asking", f"{plural(status.asking, 'run')} to answer: /runs" if status.asking else "", "warn"),
        _Part("drops", f"{status.drops:,} left out" if status.drops else "", "warn"),
        _Part("cold", cold, "warn"),
        _Part("cache", "" if cold else f"last {status.cached:.0%} cached" if status.cached is not None else ""),
        _Part("cost", "subscription" if status.covered and not status.known_usd else cost),
        _Part("savings", f"cache saved ${status.saved_usd:,.2f}" if status.saved_usd >= MIN_SAVED else ""),
        _Part("unsaved", "" if status.saved else "not saved", "warn"),
    ]
    return [part for part in parts if part.text and part.name not in omitted]


def _share(status: Status) -> float:
    return status.used / status.budget if status.budget > 0 else 0.0


def _pressure(status: Status) -> tuple[str, str]:
    """Return the role and the glyph for the use of the window."""
    if _share(status) >= CRITICAL:
        return "error", " !!"
    return ("warn", " !") if _share(status) >= HIGH else ("ok", "")


def _model(name: str) -> str:
    """Return the last part of a model's name, after the name of its key: the provider's part matters little."""
    key, colon, _ = name.partition("/")[0].partition(":")
    return cut(one_line((key + colon if colon and "/" in name else "") + (name.rpartition("/")[2] or name)), 32)


def _place(folder: str, home: str, theme: Theme, *, is_full: bool) -> str:
    text = one_line(folder)
    home = one_line(home).rstrip("/")
    if home and is_below(text, home):
        text = "~" + text[len(home) :]
    if not is_full:
        text = text.rstrip("/").rpartition("/")[2] or text
    return cut_start(text, FOLDER, theme.signs.cut)
