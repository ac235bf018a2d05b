"""Rules of the person that a summary turns round: the opposite word in the same place, or a negation too many or too
few.

Careful: only where the summary lays it down as a rule, has all else that the rule is about, and nobody said so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.exact import sentences
from nexus_cli.context.fidelity.words import NEGATION, significant, stem

_PAIRS = (
    "tabs spaces", "single double", "enable disable", "enabled disabled", "ascending descending", "merge rebase",
    "public private", "async sync", "asynchronous synchronous", "utc local", "uppercase lowercase", "upper lower",
    "camelcase snake_case", "before after", "allow forbid", "allowed forbidden", "encrypted plaintext", "http https",
    "relative absolute", "minimum maximum", "dark light", "mutable immutable", "required optional",
)  # fmt: skip
OPPOSITES = {
    stem(one): stem(other)
    for pair in _PAIRS
    for one, other in (pair.split(), pair.split()[::-1])
}
"""Words of which a rule means one and not the other, as stems."""
_GENERIC_WORDS = (
    "use uses using keep keeps make add set write want wants prefer prefers always never must should only user person "
    "asks asked rule rules constraint constraints preference style every everywhere whole project code remain stay be "
    "instead their them"
)
_GENERIC = frozenset(map(stem, _GENERIC_WORDS.split()))
"""Words that say nothing of what a rule is about, as stems."""
_NORM = re.compile(
    r"\b(?:must|should|always|never|may|can|has to|have to|need(?:s|ed)? to|allowed|permitted|fine|ok|okay|free(?:ly)?|"
    r"wants?|prefers?|requires?|rule|constraint|asked|insists?|only|every|use|keep)\b",
    re.IGNORECASE,
)
"""In a sentence that lays something down."""
_TURNING = re.compile(
    r"\b(?:forb\w+|ban\w*|prohibit\w*|refus\w+|stop\w*|remov\w+|replac\w+|drop\w*|eliminat\w+|instead|rather|against|"
    r"except|unless|without|avoid\w*|exclud\w+|reject\w*|disallow\w*|violat\w+|off[ -]limits|untouched|unchanged|alone|"
    r"no longer|used to|tried|from|until|if|when|out|only|after|before)\b",
    re.IGNORECASE,
)
_FEW = 4
"""Words of a sentence that may be a rule without a word that says so."""
_MORE, _ASIDE = 1, 3
"""Words that a rule turned round may have and the rule has not: by a negation, by the opposite of a word."""


@dataclass(frozen=True, slots=True)
class Turned:
    """A rule, and the sentence of a summary that says the opposite."""

    rule: Commitment
    sentence: str


def turned(summary: str, found: Sequence[Commitment]) -> Iterator[Turned]:
    """The sentences of `summary` that turn round a rule among what was `found`, each with its rule."""
    kinds = (CommitmentKind.CONSTRAINT, CommitmentKind.CORRECTION)
    told = [one for one in found if one.kind in kinds]
    rules = [(one, frozenset(significant(part))) for one in told for part in sentences(one.text)]
    twice = {one.text for one in found if significant(one.text).count(NEGATION) > 1}
    for sentence in sentences(summary):
        words = frozenset(significant(sentence))
        if not _NORM.search(sentence) and len(words) > _FEW:
            continue
        against = (
            rule for rule, told in rules
            if _opposite(words, told) or (rule.text not in twice and _negated(sentence, words, told))
        )  # fmt: skip
        rule = next(against, None)
        if rule and not any(_agrees(words, other) for _, other in rules):
            yield Turned(rule, sentence)


def _opposite(words: frozenset[str], told: frozenset[str]) -> bool:
    """Whether a sentence has the opposite of a word of the rule, not the word, and is about the same."""
    for word in told & OPPOSITES.keys():
        other = OPPOSITES[word]
        if other not in words or word in words or other in told or NEGATION in words ^ told:
            continue
        about, rest = _about(told) - {word}, _about(words) - {other}
        if not rest or (2 * len(about & rest) >= len(about) > 0 and len(rest - about) <= _ASIDE):
            return True
    return False


def _negated(sentence: str, words: frozenset[str], told: frozenset[str]) -> bool:
    """Whether a sentence has all that the rule is about and lacks its negation, or has one that the rule lacks."""
    if (NEGATION in words) == (NEGATION in told):
        return False
    about, rest = _about(told), _about(words)
    if not about or not about <= rest:
        return False
    return len(rest - about) <= _MORE and bool(_NORM.search(sentence)) and not _TURNING.search(sentence)


def _agrees(words: frozenset[str], told: frozenset[str]) -> bool:
    """Whether another rule of the person says what the sentence says."""
    return (NEGATION in words) == (NEGATION in told) and _about(words) <= _about(told) | _GENERIC


def _about(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if word not in _GENERIC and word != NEGATION and len(word) > 1)
