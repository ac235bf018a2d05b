"""How people say that a file was created, changed, deleted or has another name: verbs and wordings as data.

They are looked for in a sentence, folded to lower case, that has a mark in the place of each path.
"""

from __future__ import annotations

import re

from nexus_cli.context.fidelity.changes import CHANGED, CREATED, DELETED, PATH

FILE = "\x01"
"""Stands for a path, with the marks around it."""
BE = r"(?:is|are|was|were|has been|have been|got|gets)"
ADVERB = r"(?: (?:now|all|both|also|just|only|simply|therefore|already|again|since|newly|too|each|no longer))*"

STATEMENTS = tuple(
    (re.compile(pattern), state)
    for pattern, state in (
        (r"\b(?:renamed|moved)\b", "moved"),
        (r"\b(?:deleted|removed|dropped|got rid of|threw out|thrown out|unlinked|gone|took out|went away|axed|nuked|"
         r"killed off|kicked out|purged|disappeared|no longer exists?|vanished|binned|gelöscht|out went)\b|"
         rf"\b(?:took|taken|threw|thrown)(?= {FILE} (?:out|away)\b)", DELETED),
        (r"\b(?:created|added|wrote|written|introduced|(?<!is )(?<!are )generated|(?<!the )new (?:file|module|"
         r"script|test|page)|extracted|scaffolded|brand new|drafted|angelegt)\b", CREATED),
        (r"\b(?:changed|edited|updated|modified|rewrote|rewritten|refactored|adjusted|adapted|fixed|patched|reworked|"
         r"extended|replaced|corrected|reverted|bumped|shortened|trimmed|slimmed|expanded|amended|translated|annotated|"
         r"reformatted|formatted|cleaned up|tidied|simplified|touched|switched|converted|migrated|set|tightened|"
         r"documented|restored|raised|lowered|reduced|increased|filled|completed|hardened|ported|reordered|commented|"
         r"swapped|aligned|regenerated|rebuilt|recreated|saved|gespeichert|geändert|moved out|split|"
         r"put (?:[\w-]+ ){1,4}(?:in|into)\b|had to (?:also )?(?:touch|change|edit|update|adjust|adapt|fix)|pinned|"
         r"shrank|shrunk|grew|gained|lost|took over|carried over|prepared|committed|pushed|applied|exported|dumped|"
         r"registered|declared|configured|enabled|disabled|wired|hooked|mentioned|listed|inlined|renumbered|sorted|"
         r"merged|undone|undid)\b", CHANGED),
    )
)
"""Verbs of a statement and the state of the file that is their object."""
LEADS = (
    (re.compile(r"\b(?:delet|remov)(?:ed|ions?)\b|\bgone\b"), DELETED),
    (re.compile(r"\b(?:new files?|created|added)\b(?! (?:in|to)\b)|\bnew:?$"), CREATED),
    (re.compile(r"\b(?:what i (?:changed|did)|changes|changed|modified|edited|touched|updated)\b(?!.*\b(?:need|will|"
                r"would|plan|to be)\b)"), CHANGED),
)
"""The lead of a list and the state of the files with which its items begin."""
ADDRESSED = re.compile(
    r"\b(?:(?:if|when|before|once|after|until) you|you (?:need|have to|want|get)|can|could|please|should|must|don't|"
    r"always|usually|used to|in former|formerly|back then|years? ago|"
    r"by hand)\b"
)
"""A person who speaks of somebody else's doing, of what is still to be done, or of a habit."""

RENAMED = re.compile(
    rf"{FILE},?(?: which)? (?:{BE}{ADVERB} )?(?:now )?(?:renamed|moved|turned|split|became|(?:is|are) (?:now )?called|"
    rf"goes by|now lives?|lives? now|is now|are now)(?: (?:in|into|to|as|over to|under|"
    rf"the name))*(?: now)? (?:the )?(?P<to>{FILE})|\b(?:renamed|moved|folded|merged|split|turned|renaming|moving|"
    rf"git mv)(?: the| (?:old )?(?:module|file|script))* (?P<old>{FILE}) ?(?:,? ?(?:to|into|as|over to|->|→|"
    rf"=>))(?: the| a)*(?: (?:module|file))? ?(?P<new>{FILE})|^\W*(?P<from>{FILE}) ?(?:->|→|=>) ?(?P<onto>{FILE})"
)
"""A file that has another name or place."""
KEEPS = re.compile(r"\b(?:folded|merged)\b")
COPIED = re.compile(rf"\bcopied (?:the )?(?P<old>{FILE}) (?:to|into|as|over to) (?P<new>{FILE})")
NOTED = tuple(
    (re.compile(pattern), state)
    for pattern, state in (
        (r" ?[(\[](?:new|created|added)(?=[),;:\]])|(?:,|:| [–—-]) (?:new(?: file| module| script)?|created|added)"
         r"(?=[.,;)]|$)", CREATED),
        (r" ?[(\[](?:deleted|removed|gone)\b|(?:,|:| [–—-]) (?:deleted|removed|gone)(?=[.,;)]|$)", DELETED),
        (r" ?[(\[](?:changed|modified|updated|edited)\b|(?:,|:| [–—-]) (?:changed|modified|updated)(?=[.,;)]|"
         r"$)", CHANGED),
    )
)
"""What stands behind a path in brackets, or behind a dash."""
DID = re.compile(r"(?::| [–—-]) (?:\w{2,}ed|new|took out|put|wrote|made) \w")
"""Behind the path with which an item begins: what was done there."""
MARKED = re.compile(rf"^\W*(?P<mark>new|created|added|deleted|removed|gone|changed|modified|updated|edited|a|m|"
    rf"d)(?: ?:| {{1,3}}(?={FILE}))")
MARKS = {
    **dict.fromkeys(("new", "created", "added", "a"), CREATED),
    **dict.fromkeys(("deleted", "removed", "gone", "d"), DELETED),
    **dict.fromkeys(("changed", "modified", "updated", "edited", "m"), CHANGED),
}
"""What such a mark says."""
IT = re.compile(r" (?:it|them|both|that file|this file|the file)\b")
ADJECTIVE = re.compile(r"\((?:\w+ )?$|\b(?:last|first|originally|recently|ever) $|\b(?:the|an?(?! new )|this|that|"
    r"these|those|all|any|every|newly|no|your|old|which) $")
"""Before a participle that only describes."""
ACTIVE = re.compile(r" (?:the|an?|its|this|that|all|every|it|them|one|some)\b")
"""Behind a verb that the path is not the object of: `a.py dropped the cookie`."""
STATE = re.compile(r"\b(?:is|are|gets|be) (?:only |also |still |first |never |always )?$")
WHERE = re.compile(r" (?:\w+ly |only |again )?(?:in|at|by|from|for|as|with|under|inside|when\w*|on|every|each|once|if|"
                    r"during|before|after|automatically)\b")
"""Around a participle that tells how things are: `it is set in a.py`."""
PROPOSED = re.compile(r"\b(?:propos\w+|plans?|planned|steps?|next|to ?do|would|could|should|suggest\w*|remains?|"
    r"ideas?|options?)\b")
"""The lead of a list of what is not done yet."""
JOINED = re.compile(r"(?:,|,? and|,? or| &| as well as|, then) ")
"""Between paths of which the same is said."""
LOOSE = re.compile(
    rf"{PATH.pattern}|(?<![\w/.@:~-])(?P<loose>[\w.-]{{2,60}}(?:/[\w.-]{{2,60}}){{1,6}}/?)(?![\w/(:])"
)
ELSEWHERE = re.compile(r"\b(?:renamed|moved|now called)\b", re.IGNORECASE)
"""Where anything with a slash is taken for a path, for it is said to be one."""
NOW = re.compile(
    r",? (?:got|gained|received) (?:an? |its |two |three |\d+ )(?:[\w-]+ ){0,2}\w|,? (?:now|no longer) (?:\w+ly |only |"
    r"also |just )?\w+|,? (?:has|got|gained|carries) (?:an? |the |its |two |three |\d+ )?(?:new|missing|more)\b|"
    r",? (?!in |on |at |to |for |from |of |as )\w+ [^.;,]{1,80} (?:now|again)(?=[.,;:!]|$| and\b)|,? (?:is|"
    r"are) (?:\w+ ){0,2}(?:complete|clean|up to date|in sync|in order|tidy|shorter|smaller|fixed|done) ?(?:now|again|"
    r"too)?(?=[.,;:!]|$)"
)
"""What a file does behind a change that it did not do before."""
IN_NOW = re.compile(rf"(?:\bnow,? (?:\w+ )?in|\b(?:the|a) (?:new|missing) (?:[\w-]+ ){{1,4}}(?:is|are|went|goes|"
    rf"lives|stands|sits)(?: now)? (?:in|into|at)) {FILE}$")
"""Before a path in which something stands now."""
SAME = re.compile(r" (?:is|are|was|were|stays?|stayed|remains?|remained) (?:still |also |left )?(?:unchanged|"
    r"untouched|the same|as (?:it|they) (?:is|was|were)|intact|alone)\b")
NEW = re.compile(r",?(?: which)? (?:is|are) (?:brand |all |therefore )?new\b|, an? new (?:file|module|script|class|"
    r"package|test|page)\b")
USES = re.compile(r" (?:calls|uses|imports|loads|includes|reads|says|has|follows) (?:it|that|them|the new|v?\d)")
"""What a second file does that had to be changed for the first."""
BETWEEN = re.compile(r"^(?: \w+){0,3} ?$")
DIRECTLY = re.compile(rf",?(?: which i(?: have)?)?(?: {BE}|{ADVERB.removesuffix('*')})?{ADVERB} ?")
"""Between a path and the verb that it is the subject of."""
APART = re.compile(r"; |: |, (?:so|and|but|which|therefore)\b|\band\b")
"""Between a verb and a path that is not its object."""
NEGATED = re.compile(r"n't\b|\b(?:not|never|nothing|without|would|will|'ll|could|should|can|must|may|might|going to|"
                      r"want|plan|if|to be|let me|shall|propose|suggest|next|have to|none of|no longer be|(?:once|when|"
                      r"whenever|as soon as|after|until|unless|in case) (?:[^,;:]{0,60} )?(?:is|are|you|gets|has been|"
                      r"have been)|need to|yet|tried|before i|has to|still)\b")
INTO = re.compile(r"\b(?:in|into|to|inside|within|of|from|at|under|for|on|out of)(?: the)? $")
WHOLE = re.compile(r"(?:extracted|wrote|written|generated|saved|exported|dumped|scaffolded|drafted)\b")
ARRIVES = re.compile(r"\b(?:into|to|as)(?: the)?(?: new)?(?: file)? $")
"""What is written to a file makes the file."""
OVER = re.compile(r" (?:over )?(?:to|onto|off|away from) (?!the (?:end|top|bottom))")

BARE = re.compile(rf"[`\"'*_]{{1,3}}{FILE}[`\"'*_]{{1,3}}")
"""A path with the marks around it."""
