"""Classes of words that tell the mood, the time and the judgement of a sentence: what `features` looks at.

A word may belong to several. Ordinary English; nothing here is about one project or one way to say something.
"""

from __future__ import annotations

from collections import defaultdict

_CLASSES = {
    "must": "must has-to needs-to have-to need-to ought shall should supposed required requires mandatory obliged",
    "may": "may can could might allowed permitted able",
    "not": "not no never don't dont doesn't doesnt didn't didnt won't wont wouldn't shouldn't mustn't isn't isnt "
    "aren't wasn't wasnt weren't cannot can't cant couldn't couldnt neither nor without hasn't haven't nothing none "
    "nobody",
    "avoid": "avoid refrain skip omit exclude except forbidden prohibited banned off-limits out disallowed",
    "all": "all every each any everything everyone everywhere whole entire both always never nobody nothing none "
    "throughout consistently whenever wherever anything anyone",
    "only": "only just solely exclusively merely nothing-but",
    "bound": "most least max maximum min minimum under below above within limit limits over exceed exceeds longer "
    "shorter fewer less more than at-most at-least per up budget cap",
    "keep": "keep keeps stay stays remain remains stick leave preserve retain maintain survive maintained unchanged "
    "untouched alone intact same frozen identical stable compatible compatibility",
    "style": "use write name call indent format wrap prefix spell run target support pin prefer follow comment "
    "document log commit test mind respect ship freeze put check quote",
    "task": "add fix make show write create implement change update remove delete rename move refactor build find look "
    "explain tell give help list print draft start continue go carry try do let plot walk convert translate review "
    "replace merge deploy describe summarise summarize generate port extend open read search rewrite split extract "
    "upgrade install set sort clean finish",
    "please": "please pls plz kindly bitte",
    "want": "want wants prefer prefers like rather wish expect expects insist need needs i'd we'd would happier glad "
    "grateful appreciate important care",
    "me": "i i'm i've i'll i'd me my we we're we've we'll us our mine",
    "you": "you you're you've your yours you'll u ya",
    "they": "they he she their his her them it its it's they're he's she's",
    "this": "this that these those that's thats here there it it's",
    "who": "team customers customer users user boss client clients legal security ops auditors colleagues support "
    "policy style guide guideline convention contract law rule rules wiki standard reviewers management accounting",
    "bad": "wrong incorrect broken bad off misleading confusing ugly backwards inverted swapped wrongly missing "
    "useless mistake error false bug weird odd strange terrible horrible awful poor unreadable opposite twice lie typo "
    "ridiculous unusable nonsense stale outdated misspelled still again",
    "good": "good great nice perfect lovely thanks thank thx cool fine excellent wonderful works awesome beautiful "
    "better splendid brilliant love neat lgtm amazing happy impressive congrats cheers glad haha lol",
    "meant": "meant mean said asked told wanted intended meaning",
    "wronged": "forgot missed broke misread misunderstood mixed confused ignored assumed dropped overlooked lost "
    "reverted removed deleted skipped misunderstanding duplicated",
    "contrast": "but instead rather however yet though although unlike whereas actually otherwise contrary not",
    "no": "no nope nah nono wrong wait stop nein hm hmm ehm uh close almost sorry",
    "yes": "yes yep yeah ok okay sure right agreed exactly fine",
    "will": "will i'll we'll won't shall going plan plans planned intend intends would i'd we'd want need gonna",
    "later": "next then after afterwards later once finally before until tomorrow subsequently last following "
    "remaining remains left open outstanding pending follow follow-up second third first step steps eventually soon "
    "monday tuesday wednesday thursday friday week",
    "still": "still yet again",
    "try": "tried try trying attempt attempts attempted idea approach thought first experiment experimented "
    "workaround detour considered variant hoped suspected tested swapped tempted went tries test",
    "fails": "fails fail failed failing failure breaks broke crash crashes crashed deadlock deadlocks deadlocked hangs "
    "hung refuses refused rejects rejected chokes leaks leaked loops segfaults stalls loses corrupts conflicts "
    "explodes blocks blocked ignores ignored timed",
    "vain": "luck effect difference help helps helped worse slower same impossible pointless vain avail dead useless "
    "unreliable unsafe reliable option possible viable feasible enough worth expensive unsupported incompatible "
    "solution cause culprit reason out ruled gave gain either nowhere",
    "because": "because since as so therefore hence otherwise else cause bc due reason",
    "cond": "if when while unless whenever until as-long once before after",
    "be": "is are was were be been being isn't aren't wasn't weren't it's that's they're i'm we're",
    "past": "was were had did went got made took came said gave ran put kept left found saw wrote told knew meant sent "
    "broke set",
    "pres": "is are has does means needs goes comes says takes uses lives counts belongs carries stays",
    "told": "remember wonder wondered joke joking funny know knew think thought feel guess believe imagine mind "
    "worry surprised course somebody someone once",
    "num": "one two three four five six seven eight nine ten twelve twenty hundred thousand",
    "ask": "what which who where when why how whether could would can shall",
}
_TWO = {
    ("has", "to"): "has-to",
    ("have", "to"): "have-to",
    ("need", "to"): "need-to",
    ("needs", "to"): "needs-to",
    ("at", "most"): "at-most",
    ("at", "least"): "at-least",
    ("nothing", "but"): "nothing-but",
    ("off", "limits"): "off-limits",
    ("long", "as"): "as-long",
}
_FOUND: dict[str, list[str]] = defaultdict(list)
for _name, _words in _CLASSES.items():
    for _word in _words.split():
        _FOUND[_word].append(_name)
TAGS = {word: tuple(names) for word, names in _FOUND.items()}
"""The classes of a word."""
JOINED = _TWO
"""Two words that count as one."""
