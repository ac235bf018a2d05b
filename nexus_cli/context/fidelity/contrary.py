"""What a summary says of files and commands against how they stand at the end of the history.

A summary that tells the right state anywhere has only told how it came to that, and what is still to come contradicts
nothing. Of a command that ran in a pipe the status says nothing of tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nexus_cli.context.fidelity.changes import DELETED
from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.cues.statements import STATEMENTS
from nexus_cli.context.fidelity.exact import is_whole
from nexus_cli.context.fidelity.keys import core
from nexus_cli.context.fidelity.outcomes import told
from nexus_cli.context.fidelity.prose import Sentence, parts
from nexus_cli.context.fidelity.standing import Standing
from nexus_cli.context.fidelity.stated import of_statement
from nexus_cli.context.fidelity.words import plain

_TESTS = (
    r"\b(?:py\.?test|unittest|nose2?|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|"
    r"(?:npm|yarn|pnpm|bun|cargo|go|make|mvn|gradlew?|swift|dotnet|mix|deno|bazel|rake|just|hatch|zig)(?: run)? "
    r"(?:[\w:-]+[ :])?(?:test|check)s?)\b"
)
_BUILDS = (
    r"\b(?:make|cmake|ninja|tsc|(?:cargo|go|docker|vite|bazel|dotnet|swift|zig) build|(?:npm|yarn|pnpm) run build)\b"
)
_LINTS = r"\b(?:ruff|flake8|eslint|pylint|mypy|pyright|clippy|golangci-lint|shellcheck|stylelint|biome)\b"
_TOOLS = r"mypy|ruff|eslint|pytest|clippy|tsc|pyright|flake8|pylint|jest|vitest|tox"
RUNS = tuple(
    (re.compile(rf"\b{subject}\b", re.IGNORECASE), command)
    for subject, command in (
        (r"(?:tests?|test suite|suite|specs?)", _TESTS),
        (r"build", _BUILDS),
        (r"lint(?:er|ing)?", _LINTS),
        (r"type[ -]?check\w*", r"\b(?:mypy|pyright|tsc)\b"),
        (rf"(?:{_TOOLS})", ""),
    )
)
"""What is said to pass or to fail, and the command lines that tell whether it does; "" for that of the same name."""
_DONE = r"(?:\w+ly |all |now |again |both |still |currently )*"
_PASSES = re.compile(
    rf"\s*{_DONE}(?:pass(?:es|ed)?|succeeds?|succeeded|(?:is|are) {_DONE}(?:green|passing|clean|successful)|green)\b",
    re.IGNORECASE,
)
_FAILS = re.compile(
    rf"\s*{_DONE}(?:fails?|(?:is|are) {_DONE}(?:red|failing|broken))\b",
    re.IGNORECASE,
)
_ANY_FAILED = re.compile(r"\b(?:fail\w*|red|broken|errors?)\b", re.IGNORECASE)
_OPEN = re.compile(
    r"\b(?:until|unless|if|once|when|whenever|after|before|so that|sure|ensure|verify|should|must|will|would|may|might|"
    r"can|could|to|not|n't|never|no|none|without|expect\w*|wants?|needs?|hop\w+|earlier|previously|first|initially|then|"
    r"some|most|one|asked|says?|said|every time|each|whether|claim\w*|next|todo|except|but|apart|besides|although|"
    r"though|only|new|that)\b",
    re.IGNORECASE,
)
"""In a sentence that does not say that it is so now, of all of them."""
_PIPED = re.compile(r"[|;]|&\s*$")
_CLAUSE = re.compile(r"[,;]\s")
_CODE = re.compile(r"`([^`\n]{2,200})`")
_SHORT = 6
"""Words of a sentence up to which it is no quotation, although it stands in the history."""


@dataclass(frozen=True, slots=True)
class Contrary:
    """What a summary says, and how it is."""

    says: str
    truth: str
    sentence: str
    entry: int


def contrary(summary: str, events: Sequence[Commitment]) -> Iterator[Contrary]:
    """The claims of `summary` that no state of the files and commands in `events`, oldest first, bears out at their
    end."""
    said, _ = parts(summary)
    standing = Standing(summary)
    files = {_path(one.text): one for one in events if one.kind is CommitmentKind.FILE}
    runs = [one for one in events if one.kind is CommitmentKind.COMMAND and one.exit is not None]
    last = {core(one.text): one for one in runs}
    for sentence in said:
        yield from _files(sentence, files, standing)
        yield from _statuses(sentence, last, standing)
        yield from _outcomes(sentence, runs, standing)


def _files(sentence: Sentence, files: Mapping[str, Commitment], standing: Standing) -> Iterator[Contrary]:
    if sentence.box == " ":
        return
    for path, state in of_statement(sentence.text, sentence.lead if sentence.item else ""):
        one = files.get(_path(path))
        if not one or (state == DELETED) == (one.state == DELETED) or standing.holds(one):
            continue
        clauses = [clause for clause in _CLAUSE.split(sentence.text) if path in clause]
        # Where the clause has no verb, the one of the sentence counts: then there must be no other in it.
        spans = clauses if any(_stated(clause) for clause in clauses) else [sentence.text]
        if not any((one.state == DELETED) in _stated(clause) for clause in spans):
            yield Contrary(f"{path} was {state}", f"it was {one.state}", sentence.text, one.entry)


def _stated(text: str) -> set[bool]:
    """Whether files were deleted, and whether they were made or changed, as the verbs of a text have it."""
    low = text.lower()
    return {state == DELETED for cue, state in STATEMENTS if cue.search(low)}


def _statuses(sentence: Sentence, last: Mapping[str, Commitment], standing: Standing) -> Iterator[Contrary]:
    """Commands by their own line: with a status, or said to pass."""
    claims = [(ran.command, ran.exit or 0, f"ended with exit {ran.exit}") for ran in told(sentence.text)]
    for hit in _CODE.finditer(sentence.text):
        passes = _PASSES.match(sentence.text, hit.end()) if not _OPEN.search(sentence.text[: hit.start()]) else None
        if passes and not _OPEN.search(sentence.text[passes.end() :]):
            claims.append((hit[1], 0, passes[0].strip()))
    for command, status, says in claims:
        one = last.get(core(command))
        if one and status != one.exit and not standing.holds(one):
            yield Contrary(f"{core(command)} {says}", f"it ended with exit {one.exit}", sentence.text, one.entry)


def _outcomes(sentence: Sentence, runs: Sequence[Commitment], standing: Standing) -> Iterator[Contrary]:
    """Tests, builds and the like that are said to pass or to fail."""
    for subject, command in RUNS:
        for hit in subject.finditer(sentence.shown):
            before, after = sentence.shown[: hit.start()], sentence.shown[hit.end() :]
            claim = _PASSES.match(after) or _FAILS.match(after)
            if claim is None or _OPEN.search(before) or _OPEN.search(after[claim.end() :]):
                continue
            kind = re.compile(command or rf"\b{re.escape(hit[0])}\b", re.IGNORECASE)
            these = [one for one in runs if kind.search(core(one.text))]
            one = _refuting(these, bool(_PASSES.match(after)), sentence.shown, standing)
            if one:
                truth = f"the last run of {core(one.text)} ended with exit {one.exit}"
                yield Contrary(f"{hit[0]} {claim[0].strip()}", truth, sentence.text, one.entry)


def _refuting(runs: Sequence[Commitment], passes: bool, said: str, standing: Standing) -> Commitment | None:
    """The run by which it is not so."""
    if not runs:
        return None
    last = runs[-1]
    if passes:
        return last if last.exit and not _ANY_FAILED.search(said) and not standing.holds(last) else None
    newest = {core(one.text): one for one in runs}.values()
    return None if any(one.exit or _PIPED.search(one.text) for one in newest) else last


def quoted(sentence: str, said: str) -> bool:
    """Whether a sentence of a summary is one of the history, whose words are `said`: then it is no claim of the
    summary's own. A short one is what anybody would say."""
    return len(sentence.split()) > _SHORT and is_whole(said, plain(sentence))


def _path(path: str) -> str:
    return path.removeprefix("./")
