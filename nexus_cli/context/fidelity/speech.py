"""What a person or the assistant commits to in prose: constraints, corrections, failed approaches, questions, plans."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nexus_cli.context.fidelity.commitment import CommitmentKind
from nexus_cli.context.fidelity.cues import attempts, objections, queries, steps
from nexus_cli.context.fidelity.cues.table import table
from nexus_cli.context.fidelity.prose import Sentence
from nexus_cli.context.fidelity.rules import constraints, is_foreign
from nexus_cli.context.fidelity.score import Weights, scored

Found = tuple[CommitmentKind, str]

_ASKED = re.compile(r"\?[\"')\]*_`!?]*$")
_FEWEST = 2
"""Words of a correction."""
_CONTINUED = table(
    r"^(?:it|they|that|this|the|these|those) (?:must|should|has to|have to|needs? to|is|are) ",
    r"^(?:take|use|make|put|call|keep|go)\b",
    r"^(?:our|the) .{1,80}\b(?:forbids?|prohibits?|requires?|demands?|wants?|says otherwise)\b",
)
"""How the sentence behind a correction begins that belongs to it."""


def of_person(sentences: list[Sentence], weights: Weights | None = None) -> Iterator[Found]:
    """Corrections, failed approaches, questions and constraints of a person's message."""
    foreign = is_foreign(sentences)
    corrected = ""
    for number, sentence in enumerate(sentences):
        if corrected and _goes_on(corrected, sentence):
            corrected = f"{corrected} {sentence.text}"
            continue
        if corrected:
            yield CommitmentKind.CORRECTION, corrected
            corrected = ""
        if _is_question(sentence, True):
            yield CommitmentKind.QUESTION, sentence.text
            continue
        cued = list(_cued_of_person(sentence, foreign))
        for kind, text in _weighed("user", sentences, number, cued, weights):
            if kind is CommitmentKind.CORRECTION:
                corrected = text
            else:
                yield kind, text
    if corrected:
        yield CommitmentKind.CORRECTION, corrected


def _cued_of_person(sentence: Sentence, foreign: bool) -> Iterator[Found]:
    if _corrects(sentence):
        yield CommitmentKind.CORRECTION, sentence.text
    elif _has_failed(sentence):
        yield CommitmentKind.FAILED, sentence.text
    elif not _ASKED.search(sentence.text):
        for clause in constraints(sentence, foreign):
            yield CommitmentKind.CONSTRAINT, clause


def of_assistant(sentences: list[Sentence], weights: Weights | None = None) -> Iterator[Found]:
    """Questions, failed approaches and steps to come of an assistant's message."""
    asks = [bool(_ASKED.search(sentence.text)) for sentence in sentences]
    for number, sentence in enumerate(sentences):
        if _is_question(sentence, False) or (queries.ADDRESSED.search(sentence.shown) and not any(asks[number + 1 :])):
            yield CommitmentKind.QUESTION, sentence.text
        elif number and attempts.LET_GO.search(sentence.shown):
            yield CommitmentKind.FAILED, f"{sentences[number - 1].text} {sentence.text}"
        elif sentence.box:
            if sentence.box == " ":
                yield CommitmentKind.PLAN, sentence.text
        else:
            cued = [(kind, sentence.text) for kind in _cued_of_assistant(sentence)]
            yield from _weighed("assistant", sentences, number, cued, weights)


def _cued_of_assistant(sentence: Sentence) -> Iterator[CommitmentKind]:
    if _is_planned(sentence):
        yield CommitmentKind.PLAN
    elif _has_failed(sentence):
        yield CommitmentKind.FAILED


def _weighed(
    role: str, sentences: list[Sentence], number: int, cued: list[Found], weights: Weights | None
) -> Iterator[Found]:
    """What the cues found, where the shape of the sentence does not speak against it; else what it speaks for."""
    sentence = sentences[number]
    score = scored(role, sentences, number, weights)
    believed = [(kind, text) for kind, text in cued if score.confirms(kind)]
    yield from believed
    if believed or _ASKED.search(sentence.text) or sentence.shown.endswith(":"):
        return
    proposed = score.proposes()
    if proposed and any(word.isalpha() for word in sentence.shown.split()):
        yield proposed, sentence.text


def _goes_on(corrected: str, sentence: Sentence) -> bool:
    """Whether a sentence belongs to the correction before it: that one may have said no more than no."""
    if _ASKED.search(sentence.text):
        return False
    brief = len(corrected.split()) <= objections.SHORT and not sentence.inside
    return brief or _corrects(sentence) or bool(_CONTINUED.search(sentence.shown))


def _corrects(sentence: Sentence) -> bool:
    said = sentence.shown
    if sentence.follows and objections.CURT.search(said):
        return True
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
    if sentence.follows and queries.TAG.search(said):
        return False
    if not person and sentence.follows and said.startswith(("why ", "so why ", "how come ")):
        return False
    tail = said.rpartition(": ")[2]
    if tail != said and tail.split(" ", 1)[0] in queries.ASKS and not queries.REQUESTS.search(tail):
        return True
    if person and queries.REQUESTS.search(said) and not queries.OPENED.search(said):
        return False
    if person and said.startswith("and ") and queries.SHORT.search(said):
        return True
    return any(
        (words := clause.split()) and (words[0].strip("\x00'\"(") in queries.ASKS or words[0].endswith(("'s", "'re")))
        for clause in re.split(r"[,;:—–] ?|(?:^| )(?:and|or|but|so|then|if|also|btw|oh|well|hi|hello) |\. | - ", said)
    )


def _is_planned(sentence: Sentence) -> bool:
    said = sentence.shown
    if steps.DONE.search(said) or _ASKED.search(sentence.text) or said.endswith(":"):
        return False
    if sentence.item:
        lead = sentence.lead
        return bool(steps.PLANNED.search(lead) and not steps.NOT_PLANNED.search(lead))
    if steps.ANNOUNCED.search(said) and not said.startswith(("let me ", "let's ", "now ")):
        return not (steps.AT_ONCE.search(said) and not re.search(r"\b(?:next|after that|later|then)\b", said))
    return False
