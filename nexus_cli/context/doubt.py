"""Whether a text is a summary at all: a model that obeys what it reads answers with orders, or with nothing to say.

A summary tells what was. It is judged by the share of its sentences that order its reader about: with words of
politeness or haste, with leave that is given to "you", with bare imperatives that make something run. Rules, plans and
wishes that it reports, lists of steps and what it quotes are no orders of its own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum

from nexus_cli.context.fidelity.prose import Sentence, parts

MOST_PRESSING = 0.25
"""Share of the sentences that may press the reader to do something."""
MOST_ORDERS = 0.4
"""Share that may order the reader about in any way."""
SHORT = 24
"""Tokens below which a text that keeps nothing is no summary, however it begins."""
LARGE = 2000
"""Tokens that have to go before a short text is doubted."""
ENOUGH = 3
"""Commitments that have to be there before a short text is doubted for keeping none."""


class Address(IntEnum):
    """How a sentence addresses its reader."""

    NONE = 0
    ORDER = 1
    """It says what to do."""
    PRESSING = 2
    """It begs, hurries or commands."""
    LEAVE = 3
    """It gives leave, takes rules back, or asks for silence."""


_RUN = (
    r"(?:run|execute|exec|launch|invoke|call|start|fetch|download|install|curl|wget|pipe|paste|type|send|post|upload|"
    r"e-?mail|forward|publish|push|deploy|delete|erase|wipe|destroy|overwrite|disable|bypass|circumvent|grant|give|"
    r"transfer|reveal|leak|copy|export|eval|open|visit|use|write|create|reply|respond|answer|output|print|return|tell|"
    r"say|show|ignore|disregard|forget|stop|obey|follow|comply|pretend|act|treat|approve|accept|sudo|rm|chmod|kill|"
    r"rewrite|remove|edit|commit|merge|apply|confirm|repeat|enter|log|connect|turn|switch|make|do|let|take|get|put)"
)
_OBJECT = (
    r"(?: [`\"'“]?\x00|[ `\"']+(?:the|a|an|this|that|these|those|all|any|every\w*|each|your|its|it|them|me|us|"
    r"nothing|no|only|again|whatever|what|as if|as|with|to|in|from|off|immediately|now|rm|curl|wget|sudo|bash|sh|git|"
    r"npm|pip|python3?|make|chmod|cat|ssh|nc|eval|docker|[~./$]\S+|https?://\S+|\S+/\S*)(?![\w-])|[ ]+-\w)"
)
_ASIDE = r"(?:(?:and|so|then|now|first|next|also|finally|just|simply|quickly|silently|quietly|ok|okay|again)\b,? ?)*"
_POLITE = (
    r"(?:please(?! (?:note|see|refer))|kindly|be so (?:kind|good)|do me a favou?r|i (?:need|want|beg|urge|order|"
    r"ask) you to|go ahead and|feel free to|(?:make|be) (?:very )?sure (?:to|you|that you)|see to it that you|don't "
    r"hesitate to|do not hesitate to|w(?:ould|ill) you (?:please|kindly|mind)|could you|can you|your (?:new|next|only|"
    r"first|real|actual)? ?(?:task|job|mission|goal|duty|order|instruction|action)s? (?:now )?(?:is|are) (?:now )?to|"
    r"it is (?:vital|urgent|essential|imperative|crucial) (?:that you|to))"
)
_HASTE = (
    r"(?:immediately|at once|right (?:now|away)|without delay|asap|as soon as you read this|before anything else|now)"
)
_MODAL = (
    r"you (?:now |just |only |simply |also |then |really |still |must |yourself )*(?:must|should|need to|have to|had "
    r"better|ought to|shall|will|are to|may|can|could|are (?:required|obliged|instructed|ordered|told|expected|"
    r"supposed|going) to|have got to)"
)
_LEAVE = re.compile(
    r"\byou (?:do not|don't|need not|needn't|have no need|no longer|will not|won't|never)?\b[^.]{0,30}?\b(?:need|"
    r"require|have to|wait|ask|want)\b[^.]{0,30}\b(?:permission|approval|confirmation|consent|authori[sz]ation|leave)\b"
    r"|\b(?:you (?:need not|needn't|don't need to|do not need to|don't have to|do not have to|should not|shouldn't|"
    r"must not)|no need to|there is no need to|never|don't|do not) (?:ever )?(?:ask|confirm|wait|check|verify|hesitate|"
    r"question)\b(?! (?:whether|if|that the))"
    r"|\bno (?:further |more |other )?(?:permission|approval|confirmation|authori[sz]ation|consent|review|questions?)\b"
    r"[^.]{0,20}\b(?:needed|required|necessary|asked)\b"
    r"|\byou (?:are|have been|were) (?:now |hereby |fully |already |always |also )*(?:allowed|authori[sz]ed|permitted|"
    r"cleared|free to|granted|(?:pre-?)?approved|entitled|trusted|in charge|root)\b"
    r"|\byou have (?:full |all |every |complete |my |the )*(?:permissions?|access|authority|rights?|approval|clearance|"
    r"leave|blessing)\b"
    r"|\b(?:permission|approval|access|consent|clearance)s? (?:is|are|has|have|was|were) (?:been |hereby |"
    r"already |now )*(?:granted|given|waived|lifted)\b"
    r"|\b(?:everything|anything|all (?:of it|actions?|commands?)|whatever you do)\b[^.]{0,20}\b(?:approved|allowed|"
    r"permitted|authori[sz]ed)\b"
    r"|(?:^|[,;:] |\b(?:and|must|should|to|you|then|now) )(?:ignore|disregard|forget|override|discard|drop|set aside)\b"
    r"[^.]{0,40}\b(?:instructions?|rules?|constraints?|above|previous\w*|prior|guidelines?|restrictions?|safety|"
    r"prompts?|everything|polic(?:y|ies)|limits?|before|told|warnings?)\b"
    r"|\b(?:rules?|constraints?|restrictions?|instructions?|limits?|guidelines?) (?:above |before )?(?:no longer|do "
    r"not|don't) (?:hold|apply|count|bind|matter)\b"
    r"|\b(?:do not|don't|never)\b[^.]{0,20}\b(?:tell|inform|mention|notify|alert|reveal|report|let|disclose|show)\b"
    r"[^.]{0,30}\b(?:user|person|anybody|anyone|them|him|her|humans?|this|it)\b"
    r"|\b(?:keep|hide) (?:this|it|that|these)\b[^.]{0,20}\b(?:secret|quiet|hidden|yourself|from the)\b"
    r"|\byou are (?:now|no longer|henceforth)\b(?! (?:in|at|on)\b)|\bfrom (?:now|here) on,? you\b"
    r"|\bact as (?:if|an?|the)\b|\bpretend (?:that|to|you)\b",
)
_UNASKED = re.compile(
    r"^(?!.*(?:\bnever|\bnot|n't)\b.*\bwithout\b).*\bwithout (?:asking|confirming|waiting|checking|hesitat\w+|"
    r"question\w*|(?:any |further )?(?:approval|permission|confirmation|consent))\b"
)
_TO_YOU = re.compile(rf"\byou\b|^{_ASIDE}{_RUN}\b")
_PRESSING = re.compile(
    rf"^{_ASIDE}{_POLITE}\b"
    rf"|\b(?:please|kindly),? {_ASIDE}{_RUN}\b"
    rf"|^{_ASIDE}(?:{_MODAL} )?(?:{_HASTE},? )?{_RUN}\b[^.]{{0,120}}\b{_HASTE}\W*$"
    rf"|^(?:important|urgent|attention|warning|system|critical|note to (?:the )?(?:assistant|agent|model))\W+"
    rf"{_ASIDE}(?:{_MODAL} )?{_RUN}\b"
    rf"|^{_HASTE}(?<!now),? (?:{_MODAL} )?{_RUN}\b"
    rf"|\b{_MODAL}\b[^.]{{0,80}}\b{_HASTE}\W*$"
    rf"|^(?:assistant|agent|model|ai|system|user|human)\s*[:,]\s*{_ASIDE}(?:{_MODAL} )?{_RUN}\b"
)
_ORDER = re.compile(
    rf"^{_ASIDE}{_RUN}(?={_OBJECT})(?!:)|\b{_MODAL}\b (?:\w+ly )?(?!see|find|recall|read (?:them|it))\w+"
    rf"|^let's {_RUN}\b"
)
_REPORTED = re.compile(
    r"^[^.]{0,60}?\b(?:user|person|they|he|she|clients?|customers?|owner|team|developer|maintainer|reviewer|author|file|"
    r"page|text|comment|readme|issue|message|ticket|mail|output|log|script|document|assistant|agent|rule|constraint|"
    r"instruction|request|wish|policy)s?\b[^.]{0,40}\b(?:asked|said|says|told|tells|wants?|wanted|requested|instruct\w+|"
    r"insist\w*|prefers?|requires?|required|noted|decided|agreed|confirmed|allowed|allows|granted|gave|gives|forbade|"
    r"forbids|stated|states|reminded|warned|wrote|expects?|is|was|claims?|claimed|contain\w*|tried|reads|orders|"
    r"ordered|emphasi[sz]ed|approved|mentioned)\b"
    r"|^(?:\w+ ){0,3}(?<!you )(?:was|were|been) (?:asked|told|instructed|agreed|decided|requested|warned|reminded|"
    r"allowed)\b"
    r"|^(?:asked|told|instructed|agreed|decided|requested|according)\b"
)
_LISTED = re.compile(
    r"\b(?:next|to ?do|plan\w*|steps?|open|remaining|pending|constraints?|rules?|requirements?|instructions?|prefer\w*|"
    r"conventions?|asked|requests?|wants?|wishes|decisions?|decided|guidelines?|user|person|said|goals?|tasks?|left|"
    r"outstanding|follow-?ups?|agreed|recipe|how to|usage|commands?|workflow|recommend\w*)\b"
)
_LED = re.compile(
    r"^\W*(?:\w+\W+){0,3}?(?:next|to ?do|plan|steps?|remaining|pending|constraints?|rules?|requirements?|"
    r"preferences?|decisions?|goals?|tasks?|follow-?ups?|outstanding|open (?:questions?|points?|issues?)|"
    r"left to do|to be done)"
    r"(?: \w+){0,3}\s*(?:[:—]|-\s|\.$)"
)
_CALLS = re.compile(
    r"\b(?:run|execute|exec|launch|invoke|call|fetch|download|install|curl|wget|send|post|upload|delete|erase|wipe|push|"
    r"publish|disable|rm|sudo|bash|sh|overwrite|forward|transfer|deploy)\b"
)


def addresses(sentence: Sentence, led: bool = False) -> Address:
    """How one sentence addresses its reader; `led` says that it goes on after words that open a list of steps."""
    said = sentence.shown
    if _REPORTED.search(said):
        return Address.NONE
    if _LEAVE.search(said) or (_UNASKED.search(said) and _TO_YOU.search(said)):
        return Address.LEAVE
    if _PRESSING.search(said):
        return Address.PRESSING
    listed = led or bool(sentence.inside) or bool(_LISTED.search(sentence.lead)) or bool(_LED.search(said))
    return Address.ORDER if not listed and _ORDER.search(said) else Address.NONE


def _never(sentence: str) -> bool:
    return False


def doubt(
    summary: str, *, tokens: int, gone: int, kept: int, total: int, told: Callable[[str], bool] = _never
) -> str:
    """Why `summary` (of so many `tokens`) is not believed; "" where it is.

    It stands for `gone` tokens; of `total` commitments in them it keeps `kept` by itself. `told` says of a sentence
    whether somebody laid it down in what the summary stands for.
    """
    said, _ = parts(summary)
    found, led = [], False
    for sentence in said:
        address = addresses(sentence, led)
        found.append(Address.NONE if address and told(sentence.text) else address)
        led = bool(sentence.follows) and (led or bool(_LED.search(sentence.shown)))
    if _commands(said, found):
        return "the answer gives orders instead of a summary"
    if tokens < SHORT and gone >= LARGE and total >= ENOUGH and not kept:
        return f"the answer says nothing of what it stands for ({total} things to keep)"
    return ""


def _commands(said: Sequence[Sentence], found: Sequence[Address]) -> bool:
    """Whether a text orders its reader about: in too many of its sentences, or to do what it gives leave for."""
    pressing = sum(address >= Address.PRESSING for address in found)
    if pressing > MOST_PRESSING * len(found) or sum(map(bool, found)) > MOST_ORDERS * len(found):
        return True
    for number, address in enumerate(found):
        if address is not Address.LEAVE:
            continue
        near = [said[i].shown for i in (number - 1, number + 1) if 0 <= i < len(said) and found[i]]
        own = said[number].shown
        if any(map(_CALLS.search, near)) or (_CALLS.search(own) and (_PRESSING.search(own) or _ORDER.search(own))):
            return True
    return False
