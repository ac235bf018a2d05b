"""How somebody tells of an approach that did not work or was ruled out."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import table

FAILS = table(
    r"\b(?:fails?|failed|failing|failure|broke|breaks?|crash(?:es|ed)?|deadlock(?:s|ed)?|hangs?|hung|segfaults?|"
    r"errors? out|"
    r"timed out|"
    r"times out|blows up|blew up|explodes|stall(?:s|ed)|leak(?:s|ed)|chokes?|choked)\b",
    r"\b(?:did not|didn't|does not|doesn't|do not|don't|would not|wouldn't|will not|won't|could not|couldn't|cannot|"
    r"can't|no longer|"
    r"never|not) (?:\w+ )?(?:work|help|compile|build|solve|fix|scale|fit|apply|reach|verify|catch|find|detect|"
    r"reproduce|reproduced|support|"
    r"possible|viable|feasible|enough|run|pass|hold|make a difference|cover|import|load|start|go away|stick|survive|"
    r"allow|use)\b",
    r"\b(?:no (?:luck|effect|difference|change|improvement|good|dice|success)|same (?:error|result|problem|thing|"
    r"issue|crash|"
    r"failure|outcome)|to no avail|in vain|without success|dead end|for nothing|useless|changed nothing|nothing "
    r"changed|"
    r"made (?:it|things) worse|even worse|out of the question|not an option|non-starter|ruled out|rules out|gave up|"
    r"given up|"
    r"too (?:slow|large|big|high|many|expensive|risky|late|heavy|much|invasive|fragile|long)|out of order|"
    r"(?:only|merely|just|simply) (?:hid|hides?|moved|moves|masks?|masked|helped|delay\w*|shift\w*|postpone\w*|"
    r"papers)|still nothing|(?:always|exactly|just) the same|the same every time|(?:ran|runs|run) into (?:the same|"
    r"a wall|trouble)|hit (?:the same|a wall)|"
    r"still (?:the same|fails|failing|there|"
    r"broken|happens|"
    r"crashes|red|hangs|wrong|stays|get|see|same|slow|flaky|leaks)|the conflict stays|stays red|→ same|-> same|far too|"
    r"loses|lost|dropped|corrupts?|conflicts? with|incompatible|not compatible|rejected|refused|refuses|rejects|"
    r"nightmare|slow(?:s|ed|er)|worse|disaster|that's out|is out[.!]*$|are out[.!]*$|longer to|even longer|not worth|"
    r"delays?|no option|"
    r"forget it|not supported|unsupported|doesn't speak|for minutes|for hours|"
    r"reverted|backed (?:it|that) out|rolled (?:it |that )?back|had to (?:revert|undo|abandon))\b",
)
"""How an attempt ends badly."""

TRIED = table(
    r"\b(?:i|we|i've|we've|i have|they|he|she|already|first|also|have|someone|colleague) (?:\w+ly |first |already |"
    r"even |also |"
    r"have |had )*(?:tried|attempted|experimented|tested|looked (?:into|at)|evaluated|investigated|reverted|undid|"
    r"backed out|rolled back|gave .{1,30} a try|"
    r"played with|considered|thought)\b",
    r"^(?:tried|attempted|attempts?|trying|experimented|considered)\b|\b(?:my|our|the) (?:first|second|third|other|"
    r"next|initial|"
    r"last|previous|obvious|naive) (?:thought|idea|attempt|try|approach|guess|version|solution|fix|shot)\b",
    r"\b(?:this|that|first|second|same|other|such an?) (?:approach|attempt|workaround|idea|trick|route|hack|"
    r"variant|"
    r"patch|fix)\b|^(?:but |and |so )?(?:the|an?) [\w\x00`-]+ (?:approach|attempt|workaround|idea|trick|route|hack|"
    r"variant|solution)\b",
    r"^(?!(?:no|some|every|any)thing\b|during\b|string\b|being\b|according\b)[\w\x00`]*\w{2,}ing\b(?! (?:is|to|at|"
    r"it (?:is|now))\b)",
    r"\btried\b.*\b(?:but|however|yet|unfortunately|though)\b",
    r"^(?:just |simply |only |even |also |but |and |so |then |first,? )*(?!during|nothing|something|everything|"
    r"anything)\w{3,}ing (?:the|a|an|it|that|this|"
    r"them|to|on|in|with|by|\x00|`|\w+)\b",
)
"""An approach is what the sentence is about."""

DID = table(r"^(?:and |so |then )?(?:i|we|i've|we've|my colleague|he|she|they) (?:\w+ly |have |also |already |even "
            r")*(?:\w+ed|put|set|cut|made|ran|took|gave)\b")
"""Somebody did something."""

EFFECTLESS = table(
    r"\b(?:no (?:luck|effect|difference|change|improvement|success|dice)|same (?:error|result|problem|thing|issue|"
    r"crash|failure|outcome)|to no avail|in vain|without success|"
    r"(?:changed|helped|solved|fixed|did) nothing|nothing changed|(?:made|got) (?:it|things)? ?(?:even )?worse|even "
    r"worse|still (?:fails|failing|broken|happens|crashes|red|hangs|wrong|the same))\b",
    r"\b(?:didn't|did not|doesn't|does not) (?:really )?(?:help|work|fix|solve|change|make a difference|do (?:it|"
    r"anything|the trick))\b",
)
"""And it was for nothing."""

OUTRIGHT = table(
    r"\b(?:i|we)(?:'ve| have)? (?:\w+ ){0,2}?tried\b.*\b(?:still|both times|each time|every time|all of them|none of|"
    r"nothing|"
    r"in every case|either way|each of them|every one)\b",
    r"\b(?:is|are) out(?::| because| as\b| here\b| for us\b| too\b|; | — | - )",
    r"(?<!, )\b(?:isn't|is not|wasn't|was not|aren't|weren't) (?:it|that|them|the (?:reason|cause|culprit|problem|"
    r"bottleneck|one|answer|way))(?: either|,? (?:because|since|as)\b|: |; )",
    r"\b(?:won't|will not|would not|wouldn't) (?:do|fly|cut it|hold|scale|suffice)(?:[,:;.!]| because| here| as|"
    r" since| either)",
    r"^(?:already |also |even )*tried\b.*\bstill\b",
    r"\b(?:made|makes|making) (?:[\w'-]+ ){0,4}?(?:worse|slower|bigger|harder|flakier|larger|longer)\b|"
    r"ing .{1,60} is (?:impossible|pointless|hopeless|unsafe)\b|(?<!\byou )\b(?:can't|cannot|can not) (?:do|handle|"
    r"express|"
    r"support|represent|"
    r"provide|deliver|give us|offer)\b.{1,60}\b(?:as|because|since)\b",
    r"\b(?:i|we)(?:'ve| have)? (?:\w+ )?(?:experimented|played|toyed|flirted) with\b.*\b(?:below|less|no|hardly|only|"
    r"barely|little|"
    r"negligible|not|\w+n't|but)\b",
    r"\b(?:give|gave|giving|given) up on\b|\b(?:i|we|i'll|i've|we've) (?:abandon(?:ed)?|discard(?:ed)?|reject(?:ed)?|"
    r"scrapp?(?:ed)?|rul(?:e|ed) out|dropp?(?:ed)? the idea|decided against|had to give up|backed out)\b",
    r"(?:^|, |\b(?:and|but|i|we|one|so) )(?:could not|couldn't|cannot|can't|was not able to|wasn't able to|"
    r"were not able to) "
    r"(?:get|go|find|make|bring|narrow|do|see|reach|reproduce|build|run)\b.{1,80}\b(?:because|bc|cuz|cause|since|"
    r"due to)\b",
    r"\b(?:is|are)(?:n't| not) (?:possible|feasible|viable|workable|an option|practical)\b|\bhad (?:no|little|hardly "
    r"any) effect\b"
    r"|^(?:[\w,'-]+ ){0,6}?neither\b.{1,200}?\bnor\b.{1,200}?\b(?:\w{2,}ed|made|did|had|got|brought|gave|works?|"
    r"helps?|helped)\b|"
    r"\boff my list\b",
    r"\b(?:it|that|this|they) (?:still |also |even )*(?:crash|fail|break|hang|happen|occur|leak|freeze|appear|"
    r"come)(?:es|s)? "
    r"(?:also|still|even|too|anyway|all the same)(?: (?:with|without|when|if|after|on)\b|[.,!])",
    r"\b(?:is|are|was)(?: not|n't) the (?:solution|answer|fix|way|culprit|cause)\b",
    r"\bneither\b.*\b(?:effect|helps?|helped|works?|worked|difference|change)\b|\b(?:we|i|they) (?:did|had|used) "
    r"(?:that|this|it) (?:once|before|already|last)\b",
    r"\bi(?:'d|'ve| had| have)? (?:first |initially |originally |also |even )?(?:tried|suspected|assumed|hoped|"
    r"experimented|considered|attempted)\b.*\b(?:but|however|yet|unfortunately)\b",
    r"\boff the table\b|\bthe same again\b|\bso (?:that|this)(?:'s| is) (?:out|off|not|no)\b",
    r"\b(?:is|are|that's|it's) no (?:solution|option|use|help|alternative)\b",
    r"^(?:but |and |so |sadly |unfortunately )?(?:that|this|it) (?:didn't|did not|doesn't|does not) (?:do it|do the "
    r"trick|help|work|fix|solve)\b",
    r"\b(?:tried|attempted|considered|looked into|evaluated)\b.*\b(?:but|however|yet|unfortunately|though|no option|"
    r"forget it)\b",
    r"\b(?:tried|attempted)\b.*\b(?:but|however|yet|unfortunately|though)\b",
    r"\b(?:i|we|you|one|it|this|that|there|which)\b.{0,20} (?:can't|cannot|can not|could not|couldn't|won't be able "
    r"to|is not possible to|isn't possible to|impossible to|not able to|"
    r"unable to|no way to) (?:\w+ )?(?:use|verify|reproduce|upgrade|rely|move|switch|run|reuse|pin|install|"
    r"migrate|drop|patch|fix|do|go|make|get|take|work|test|confirm)\b",
    r"\b(?:doesn't|does not|won't|will not|wouldn't|would not|didn't|did not) (?:really )?work (?:because|since|as|"
    r"here|for|with|"
    r"either|there|on|in|out|at all)\b|\b(?:fails|failed|breaks|broke|deadlocks) (?:here |there )?(?:because|since)\b",
    r"\b(?:not|isn't|aren't|wasn't) (?:an option|viable|feasible|workable|usable|a solution|possible here|the cause|"
    r"the culprit)\b",
    r"\b(?:ruled out|rules out|out of the question|dead end|gave up on|given up on|had to abandon|non-starter|turned "
    r"out to be (?:a dead|"
    r"impossible|wrong|worse|slower|too)|made (?:it|things|matters) worse|to no avail|didn't help|did not help|does "
    r"not help|"
    r"doesn't help|no effect|changed nothing|made no difference|only (?:hid|hides|masked|masks) (?:it|the))\b",
    r"(?:→|->|=>|\.\.\.|…) ?(?:same|still|no (?:change|effect|difference|luck)|nope|nothing|oom|crash\w*|fails?|"
    r"worse|didn't help|error)\b",
)
"""Ruled out in so many words."""

LET_GO = table(
    r"^(?:and |so )?(?:that|this|which)(?:'s| is| was) (?:also )?(?:why|the reason(?: why)?) (?:i|we)(?:'ve|"
    r" have)? (?:let|"
    r"dropped|abandoned|decided against|gave|did not|didn't|rejected|discarded|ruled|left|went back|reverted|"
    r"kept away)\b"
    r"|^(?:so|hence|therefore),? (?:i|we) (?:dropped|abandoned|decided against|let|gave|rejected|discarded|"
    r"ruled) (?:it|"
    r"that|this|up|the idea)\b"
)
"""The sentence before tells why an approach was given up."""

FAILED_LEAD = table(
    r"\b(?:tried|attempts?|attempted|did(?:n't| not) work|does(?:n't| not) work|ruled out|dead ends?|failed|"
    r"unsuccessful|"
    r"without success|rejected|discarded|no luck)\b"
)
"""A lead under which every item is a failed approach."""
