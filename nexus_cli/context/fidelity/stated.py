"""Which files somebody says were created, changed or deleted: the paths of a sentence and what its verbs do to them.

The wordings are in `cues/statements.py`. A sentence is read with a mark in the place of each path, so that what a path
is called says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nexus_cli.context.fidelity.changes import CHANGED, CREATED, DELETED, PATH
from nexus_cli.context.fidelity.cues.statements import (
    ACTIVE,
    ADDRESSED,
    ADJECTIVE,
    APART,
    ARRIVES,
    BARE,
    BE,
    BETWEEN,
    COPIED,
    DID,
    DIRECTLY,
    ELSEWHERE,
    FILE,
    IN_NOW,
    INTO,
    IT,
    JOINED,
    KEEPS,
    LEADS,
    LOOSE,
    MARKED,
    MARKS,
    NEGATED,
    NEW,
    NOTED,
    NOW,
    OVER,
    PROPOSED,
    RENAMED,
    SAME,
    STATE,
    STATEMENTS,
    USES,
    WHERE,
    WHOLE,
)


def of_statement(text: str, lead: str, person: bool = False) -> Iterator[tuple[str, str]]:
    """Path and state of the files that a sentence says were changed; `lead` stands over the list whose item it is."""
    paths: list[str] = []
    loose: set[str] = set()

    def veil(hit: re.Match[str]) -> str:
        paths.append(hit[hit.lastgroup or 0])
        loose.update([hit[0]] if hit.lastgroup == "loose" else [])
        return FILE

    low = BARE.sub(FILE, (LOOSE if ELSEWHERE.search(text) else PATH).sub(veil, text)).lower()
    if not paths or low.rstrip().endswith("?") or PROPOSED.search(lead):
        return
    places = [at for at, char in enumerate(low) if char == FILE]
    if len(places) != len(paths):
        return
    verbs = sorted((hit.start(), hit.end(), state) for cue, state in STATEMENTS for hit in cue.finditer(low))
    verbs = [verb for verb in verbs if not ADJECTIVE.search(low, 0, verb[0])]
    verbs = [verb for verb in verbs if not NEGATED.search(low, _clause(low, verb[0]), verb[0])]
    verbs = [verb for verb in verbs if not (STATE.search(low, 0, verb[0]) and WHERE.match(low, verb[1]))]
    if person:
        verbs = [verb for verb in verbs if not ADDRESSED.search(low, _clause(low, verb[0]), verb[1])]
    known = _renamed(low, person)
    states: list[str] = []
    for number, (place, path) in enumerate(zip(places, paths, strict=True)):
        state = known.get(place) or ""
        if not state and path not in loose:
            state = _noted(low, place + 1) or _stated(low, place, verbs, places)
        if not state and low.find(FILE) == place:
            state = _first(low, place, lead)
        if not state and number and states[-1] == CHANGED and USES.match(low, place + 1):
            state = CHANGED
        states.append(state)
    for number in range(len(states) - 2, -1, -1):
        if not states[number] and JOINED.fullmatch(low, places[number] + 1, places[number + 1]):
            states[number] = states[number + 1]
    yield from ((path, state) for path, state in zip(paths, states, strict=True) if state)


def _first(low: str, place: int, lead: str) -> str:
    """The state of the path that a sentence or an item begins with."""
    mark = MARKED.match(low)
    if mark:
        return MARKS[mark["mark"]]
    if low[:place].strip("*_-• "):
        return ""
    if DID.match(low, place + 1):
        return CHANGED
    return next((state for cue, state in LEADS if cue.search(_said(lead))), "")


def _said(lead: str) -> str:
    """The last sentence of a lead; "" where it says that nothing was done."""
    said = re.split(r"[.!?] ", lead.strip().rstrip(".:!"))[-1]
    return "" if NEGATED.search(said) else said


def _renamed(low: str, person: bool) -> dict[int, str]:
    """The places of paths that have another name now, and of their new ones."""
    found: dict[int, str] = {}
    for hit in RENAMED.finditer(low):
        start = _clause(low, hit.start())
        if NEGATED.search(low, start, hit.start()) or (person and ADDRESSED.search(low, start, hit.end())):
            continue
        if hit[0].count(FILE) != 2:
            continue
        first, second = (at for at in range(hit.start(), hit.end()) if low[at] == FILE)
        if "split" in hit[0]:
            found.update(dict.fromkeys((at for at in range(second, len(low)) if low[at] == FILE), CREATED))
            continue
        found[first] = DELETED
        found[second] = CHANGED if KEEPS.search(hit[0]) else CREATED
    for hit in COPIED.finditer(low):
        found[hit.start("old")], found[hit.start("new")] = "", CREATED
    return found


def _noted(low: str, end: int) -> str:
    return next((state for note, state in NOTED if note.match(low, end)), "")


def _stated(low: str, place: int, verbs: list[tuple[int, int, str]], places: list[int]) -> str:
    """The state that the nearest verb gives to the path at `place`."""
    end = place + 1
    if SAME.match(low, end):
        return ""
    if NEW.match(low, end):
        return CREATED
    if place > places[0] and verbs and verbs[0][0] < place and USES.match(low, end):
        return CHANGED
    if IN_NOW.search(low[max(0, place - 80) : end]):
        return CHANGED
    before = [verb for verb in verbs if verb[1] <= place]
    after = [verb for verb in verbs if verb[0] > place]
    verb = before[-1] if before else None
    if verb is None and after and BETWEEN.search(low[end : after[0][0]]):
        verb = after[0]
    direct = next((other for other in after if DIRECTLY.fullmatch(low, end, other[0])), None)
    if direct and ACTIVE.match(low, direct[1]) and not re.search(BE, low[end : direct[0]]):
        direct = None
        after = [other for other in after if other[0] > end + 20]
    if verb and direct and (APART.search(low, verb[1], place) or low.startswith(", which", end)):
        verb = direct
    if verb is None and direct:
        verb = direct
    if verb is None and NOW.match(low, end):
        return CHANGED
    if verb is None and after and IT.match(low, after[0][1]) and after[0][0] - end < 80:
        verb = after[0]
    if verb is None:
        return ""
    if verb[2] == "moved":
        return CHANGED if low[:place].endswith((" to ", " into ")) or OVER.match(low, end) else ""
    if WHOLE.match(low, verb[0]) and ARRIVES.search(low, 0, place) and verb[1] <= place:
        return CREATED
    return CHANGED if INTO.search(low, 0, place) and verb[1] <= place else verb[2]


def _clause(low: str, position: int) -> int:
    return max(low.rfind(mark, 0, position) + 1 for mark in (",", ";", ":", "."))
