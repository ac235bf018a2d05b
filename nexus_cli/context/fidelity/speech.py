"""What a person or the assistant commits to in prose: constraints, corrections, failed approaches, questions, plans."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nexus_cli.context.fidelity.commitment import CommitmentKind
from nexus_cli.context.fidelity.cues import attempts, conventions, demands, objections, queries, steps
from nexus_cli.context.fidelity.cues.table import table
from nexus_cli.context.fidelity.prose import Sentence, fold, masked

Found = tuple[CommitmentKind, str]

_CLAUSES = re.compile(
    r"\s*;\s+|\s+[—–-]+\s+|,?\s+(?:and|but|so|because|since|und|aber)\s+(?!\d|\w+ly\b)"
    r"|,\s+(?=(?:please|don't|dont|do not|never|always|only|nothing|make sure|keep|use|also|it must|it should|they "
    r"must)\b)",
    re.IGNORECASE,
)
_REASON = re.compile(r",?\s+(?:because|since)\s+$", re.IGNORECASE)
_ASKED = re.compile(r"\?[\"')\]*_`!?]*$")
_FEWEST = 2
"""Words of a constraint or a plan."""
_CONTINUED = table(
    r"^(?:it|they|that|this|the|these|those) (?:must|should|has to|have to|needs? to|is|are) ",
    r"^(?:take|use|make|put|call|keep|go)\b",
)
"""How the sentence behind a correction begins that belongs to it."""


def of_person(sentences: list[Sentence]) -> Iterator[Found]:
    """Corrections, failed approaches, questions and constraints of a person's message."""
    foreign = _is_foreign(sentences)
    corrected = ""
    for sentence in sentences:
        said = sentence.shown
        if corrected and (_corrects(sentence) or (_CONTINUED.search(said) and not _ASKED.search(sentence.text))):
            corrected = f"{corrected} {sentence.text}"
            continue
        if corrected:
            yield CommitmentKind.CORRECTION, corrected
            corrected = ""
        if _is_question(sentence, True):
            yield CommitmentKind.QUESTION, sentence.text
        elif _corrects(sentence):
            corrected = sentence.text
        elif _has_failed(sentence):
            yield CommitmentKind.FAILED, sentence.text
        elif not _ASKED.search(sentence.text):
            for clause in _constraints(sentence, foreign):
                yield CommitmentKind.CONSTRAINT, clause
    if corrected:
        yield CommitmentKind.CORRECTION, corrected


def of_assistant(sentences: list[Sentence]) -> Iterator[Found]:
    """Questions, failed approaches and steps to come of an assistant's message."""
    for sentence in sentences:
        if _is_question(sentence, False):
            yield CommitmentKind.QUESTION, sentence.text
        elif _is_planned(sentence):
            yield CommitmentKind.PLAN, sentence.text
        elif _has_failed(sentence):
            yield CommitmentKind.FAILED, sentence.text


def _is_foreign(sentences: list[Sentence]) -> bool:
    told = [word for sentence in sentences for word in sentence.shown.split()]
    return sum(word in demands.ENGLISH for word in told) < max(2, len(told) // 12)


def _corrects(sentence: Sentence) -> bool:
    said = sentence.shown
    if sentence.item or len(said.split()) < _FEWEST or _ASKED.search(sentence.text):
        return False
    return bool(objections.CORRECTED.search(said)) and not objections.PRAISED.search(said)


def _has_failed(sentence: Sentence) -> bool:
    said = sentence.shown
    if sentence.item and attempts.FAILED_LEAD.search(sentence.lead):
        return True
    if attempts.DID.search(said) and attempts.EFFECTLESS.search(said):
        return True
    return bool(attempts.OUTRIGHT.search(said) or (attempts.FAILS.search(said) and attempts.TRIED.search(said)))


def _is_question(sentence: Sentence, person: bool) -> bool:
    said = sentence.shown
    if not person and queries.OFFERS.search(said):
        return True
    if person and queries.BARE.search(said):
        return True
    if not _ASKED.search(sentence.text) or queries.RHETORICAL.search(said) or queries.ANSWERED.search(sentence.follows):
        return False
    if not person and sentence.follows and said.startswith(("why ", "so why ", "how come ")):
        return False
    if person and queries.REQUESTS.search(said) and not queries.OPENED.search(said):
        return False
    if person and said.startswith("and ") and queries.SHORT.search(said):
        return True
    return any(
        (words := clause.split()) and (words[0].strip("\x00'\"(") in queries.ASKS or words[0].endswith(("'s", "'re")))
        for clause in re.split(r"[,;:—–] ?|(?:^| )(?:and|or|but|so|then|if|also|btw|oh|well|hi|hello) |\. | - ", said)
    )


def _constraints(sentence: Sentence, foreign: bool) -> Iterator[str]:
    """The clauses of a sentence that hold a constraint, each with what follows it."""
    if sentence.inside and conventions.RULES.search(sentence.lead):
        yield sentence.text
        return
    veiled = masked(sentence.text)
    starts = [0, *(cut.end() for cut in _CLAUSES.finditer(veiled) if not _REASON.search(cut[0]))]
    ends = [*(cut.start() for cut in _CLAUSES.finditer(veiled) if not _REASON.search(cut[0])), len(veiled)]
    held: tuple[int, int] | None = None
    for start, end in zip(starts, ends, strict=True):
        if _constrains(fold(veiled[start:end]), foreign):
            if held:
                yield sentence.text[held[0] : held[1]]
            held = (start, end)
        elif held:
            held = (held[0], end)
    if held:
        yield sentence.text[held[0] : held[1]]


def _constrains(clause: str, foreign: bool) -> bool:
    if len(clause.split()) < _FEWEST or clause.endswith(":") or demands.SELF.search(clause):
        return False
    if foreign and demands.FOREIGN.search(clause):
        return True
    return any(cues.search(clause) for cues in (demands.PROHIBITED, demands.REQUIRED, conventions.STANDING))


def _is_planned(sentence: Sentence) -> bool:
    said = sentence.shown
    if sentence.box:
        return sentence.box == " "
    if steps.DONE.search(said) or _ASKED.search(sentence.text) or said.endswith(":"):
        return False
    if sentence.item:
        lead = sentence.lead
        return bool(steps.PLANNED.search(lead) and not steps.NOT_PLANNED.search(lead))
    if steps.ANNOUNCED.search(said) and not said.startswith(("let me ", "let's ", "now ")):
        return not (steps.AT_ONCE.search(said) and not re.search(r"\b(?:next|after that|later|then)\b", said))
    return False
