"""How a person states what holds from here on: limits, preferences, conventions, lists of rules."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import NUMBER, table

STANDING = table(
    r"\b(?:that's|that is|it's|it is|this is|they're) (?:a |an |our |part of |in |what |how |"
    r"all )*(?:the )?(?:promise|contract\w*|"
    r"sla|law|legal requirement|the deal|deal|policy|guaranteed|obligation|agreement|agreed|written in|"
    r"in the (?:contract|spec)|"
    r"standard|convention|house rule|our style|must|rule)\b(?! (?:wrong|not))",
    r"\b(?:we|we'll|we will|we'd|let's|let us|project|team|company)(?: \w+ly| all)? (?:stay|remain|stick|live|"
    r"work) (?:on|with|at|"
    r"to|in|within|by)\b(?! (?:it|a project|this problem|that)\b)",
    r"\b(?:i|we)(?:'d| would) (?:hate|rather not|not want|not like|dislike|be sad)\b|^(?:the |our |all |"
    r"and )*\w{2,}s are (?:always|"
    r"never|only)\b|^(?:everything|anything|whoever|whatever) (?:that|which|who|you) .{1,60}\b(?:goes|belongs|needs|"
    r"gets|lives|runs) "
    r"(?:through|in|into|via|on|under|to|by|behind|with|an?|its)\b|^(?:tabs|spaces|" + NUMBER + r"[\w-]* \w+),? "
    r"(?:please|pls|plz)[.!]*$",
    r"^(?:and |also |please |but )*(?:mind|remember|keep in mind|bear in mind|don't forget|take into account|"
    r"think of) (?:that (?:we|it|"
    r"our|the|they|this|there|\w+ is|\w+ are)|the \w+ (?:with|who|on|without))\b",
    r"(?:^|, |\b(?:and|but|please) )mind the \w+|\b(?:do|make do|live|get by) without\b|^[\w ]{1,20} first, then\b|"
    r"\b(?:anything|everything|all|whatever) (?:but|except|apart from)\b"
    r"|\b(?:is|are) (?:stored|kept|rounded|expressed|counted|quoted|billed|saved) (?:in|as|to|by)\b",
    r"\b(?:please|kindly|pls|plz) (?:to )?(?:not|avoid|refrain|only|always|keep|use|leave|preserve|respect|follow|"
    r"mind|observe)\b",
    r"\bwe(?:'re| are) (?:on|stuck (?:on|with|at)|bound (?:to|by)|limited to|tied to|locked (?:to|into)) (?!it\b|"
    r"this\b|that\b|holiday|vacation|call)"
    r"|\bso .{1,40} (?:is|are)(?:n't| not) (?:available|an option|possible|allowed|supported)\b|^for (?:each|every|"
    r"all|any) (?!reason|thanks|one of us)"
    r"|\bnever (?:leaves?|touche?s?|sees?|goes|changes|enters|reaches|contains|stores|logs|prints|overwrites|deletes|"
    r"trusts?|assumes?)\b(?!.*\b(?:bug|why|stops)\b)",
    r"^(?:the |our |and )*(?:\w+ )?(?:edition|msrv|dialect|platform|runtime|standard|language level|minimum version|"
    r"python version|target version|scope|audience)(?: \w+)? (?:is|stays|remains|must)\b",
    r"^nothing [\w-]+[.!]*$|^(?!this |its |is |was |has |it |he |she |\d)[a-z-]+s [\w-]+ed, [\w-]+s? [\w-]+\b"
    r"|^(?:all |the )?(?!this\b|is\b|was\b|has\b|tests\b)[a-z-]+s [\w-]+ed(?: by| in| with| as| to) ",
    r"^(?!it |he |she |that |this |there |what |which |greetings|regards|thanks|news|questions|comments|remarks|"
    r"thoughts|problems|errors|"
    r"issues|logs|lines|results|details|findings|differences|steps|changes|users|people|customers)"
    r"(?:(?!\w+s )[\w-]+ )?(?!is\b|was\b|has\b|does\b|looks\b|this\b|its\b|us\b|as\b|yes\b|goes\b|seems\b|sits\b|"
    r"lives\b|works\b)[a-z_-]{2,}s "
    r"(?:in|as|with|without|under|via|per|next to|by) (?!.*\b(?:is|are|was|were|has|have|do|does|did|fail|fails|look|"
    r"looks|work|works|i|we|you)\b)(?!.*:$)",
    r"\b(?:people|team|users|customers|auditors|ops|legal|security|lawyers|clients|students|readers) (?:need|require|"
    r"rely on|depend on|insist on)\b.*\b(?:each|every|all|any|always|old|existing)\b",
    r"\b(?:rule|convention|policy|requirement|constraint|condition|guideline|style guide)s?\b(?: \w+){0,3}(?::| is\b|"
    r" are\b)"
    r"|\b(?:as long as|so long as|provided that|on condition)\b|\b(?:so that|such that|in a way "
    r"that)\b.{0,60}\b(?:understands?|works?|can|stays?|keeps?|remains?|runs?|fits?)\b",
    r"^(?:and |also |one more rule: |the |our )*(?:output|errors?|diagnostics|logs?|results?|messages?|input|"
    r"config\w*|secrets?|docs?|tests?|code|changes) "
    r"(?:goes?|comes?|belongs?|lives?|ends? up) (?:to|in|into|next|under|on|at|from|through|via|behind)\b",
    r"^(?:and |also |but |for us |here )*(?!things|tests? (?:pass|fail|take)|users|people|customers|numbers|thanks|"
    r"regards|sometimes|always|this|his|its|yes|perhaps|theres|us|lets|"
    r"these|those|guess|looks|seems|works|was|is|has|does)[a-z_-]+(?: [a-z_-]+)?s (?:go|belong|end|start|begin|live|"
    r"carry|return|follow|contain|include|sit|use|have (?:a|an|the|no)|"
    r"are (?!\w+ing\b|used to|supposed)(?:in|at|under|named|written|kept|put|sorted|stored|\w+ed)\b)",
    r"^(?:and |also |one more (?:rule|thing): )*an? [\w-]+(?: [\w-]+)? (?:either|always|never|must|gets|needs|"
    r"belongs|starts|ends|has to|returns|is (?:never|always|only|not))\b",
    r"\bas (?:few|little|small|simple|short|fast|close|minimal|late|early|lean) .{0,40}as possible\b|\bat all "
    r"costs?\b|\bpreferabl[ey]\b"
    r"|\b(?:is|are) preferred\b|\b(?:separate|single|one) (?:commits?|prs?|branch(?:es)?|migrations?|pull requests?|"
    r"patch(?:es)?|transactions?|files?|quer(?:y|ies)|requests?|pass(?:es)?|releases?|modules?)\b(?! (?:fail|is|was|"
    r"broke|left))",
    r"\bask (?:me |us |first )?before\b|\b(?:check|talk|clear (?:it|that)) with (?:me|us)\b|\btell me (?:first|"
    r"before)\b|\bwait (?:for my|until i|for me)\b"
    r"|\btry not to\b|\bplease not\b|\bstart with a failing test\b",
    r"\b(?:is|are|stays?|remains?) (?:frozen|fixed|final|sacred|locked|read-only|immutable|untouchable|set in stone|"
    r"a contract|append-only|case-sensitive|not negotiable|"
    r"confidential|off the table|mandatory|protected)\b|\b(?:stays?|remains?)(?: put| on| off| out)?[.!,]*$",
    r"\b(?:in|as|is|are|use|uses|with|all|only|everything) (?:always |all )?(?:camel ?case|snake[_ ]case|kebab[- "
    r"]case|pascal ?case|utc|iso 8601|utf-8|latin-1|ascii|lf|crlf|upper ?case|lower ?case|"
    r"present tense|imperative|title case|english|german|french|spanish|metric|kelvin|celsius|si units)\b",
    r"^(?:and |but |the |our |for )*(?:encoding|indent\w*|charset|retention|sla|line ends?|line endings?|naming|"
    r"casing|licen[cs]e|locale|time ?zone|currency|units?|variables?|constants?|names|classes|functions|"
    r"tests|branches|commits|errors|dates|timestamps|logs|strings|messages|comments|files|identifiers|target|minimum|"
    r"maximum|baseline)(?: \w+){0,4} (?:is|are|stays?|go|goes|come|use|uses|belong|end|start|live)\b",
    r"\b(?:stays?|remains?|keeps?) (?:as|in|on|at|until|the|its|their|the same|compatible|byte|below|under|untouched|"
    r"unchanged"
    r"|exactly|valid|stable|supported|green|where|what|working|small|short|readable|private|public|english|there|put|"
    r"pinned)\b",
    r"\b(?:at most|at least|no more than|not more than|no longer than|no later than|up to|under|below|within|less than|"
    r"fewer than|max(?:imum)?\.?(?: of| is)?|min(?:imum|\.)?(?: of| is)?|limit(?:ed)? (?:is|to|of)|in batches of|"
    r"exactly) ~?"
    + NUMBER + r"(?!.{0,12}\bago\b)",
    r"\b(?:is|are) (?:the )?(?:max(?:imum)?|min(?:imum)?|limit|upper bound|hard limit|ceiling)\b",
    r"\b(?:backwards?|forwards?)[- ]compatib|\b(?:byte[- ]for[- ]byte|bit[- ]for[- ]bit)\b|\bmust-have\b",
    r"\b(?:limit|length|size|width|height|timeouts?|margins?|padding|font|sla|retention|coverage|budget|deadline|"
    r"quota|retries|indent\w*|contrast|threshold|depth|rate|interval|precision|resolution|ttl|maximum|max)"
    r"(?: (?:is|are|of|max|maximum|min|at|must be|should be|stays|stays at))?:? ~?" + NUMBER +
    r"(?!.*\b(?:was|were|got|gives|error)\b)",
    r"\b(?:insists?|demands?|expects?|requires?|wants|want) (?:that|the|all|every|us to|it to|them to|you "
    r"to)\b(?!.*\?)(?<!i want the)(?<!i want you to)(?<!i want it to)",
    r"\b(?:i(?:'d| would)|we(?:'d| would)) like (?:every|all|each|no|only|any|the same)\b",
    r"\bi(?:'d| would)? (?:prefer|rather|like (?!to\b|you\b|it\b|that\b|this\b|the (?:idea|look|way)\b)|insist|"
    r"favou?r|expect)",
    r"\bwe (?:always|never|only|use (?!an? )|prefer|stick|target|support|follow|pin|require|are bound|don't (?:use|"
    r"do|allow|want|ship|"
    r"commit|mock|merge|push|support|add))\b(?! to (?:have|be|do|use|get)\b)",
    r"\b(?:our|the|house|company|team|project) (?:convention|policy|rule|style guide|style|standard|guideline|rules|"
    r"conventions)"
    r" (?:is|are|says?|for|require|wants?|demands?)\b",
    r", (?:and |but |just |only |please )?not (?!sure|yet|to mention|only|just|that|because|really|"
    r"bad)[\w\x00`\"'./-]+",
    r"\b(?:like|as) (?:in|for|with) (?:the |our )?[\w\x00`./-]+(?: \w+)?[.!]*$",
    r"\bas usual\b|\bas in the (?:old|existing|"
    r"rest|other)",
    r"\b\w+ only[.!,)]*$|^only (?!one\b|thing|problem|question|the\b|issue|then\b|now\b)[\w\x00\"`]|\bonly\b(?=[.!]*$)",
    r"\bi (?:don't|do not|dont) (?:want|need you to)\b(?! to (?:be|go|have|lose|wait|know|sound|wake))|\bi want "
    r"(?:no|only|small|every|all|each|the same)\b",
    r"\b(?:i|we|they) (?:want|need|would like) (?!you\b|us\b|to\b|him\b|her\b).{1,60}\bto (?:be|stay|work|have|run|"
    r"look|keep|remain|go)\b|^(?!me\b|you\b|ladies\b)[\w-]+ first[.!]*$",
    r"\b(?:i(?:'d| would)|we(?:'d| would)|it(?:'d| would)|customers? would|they(?:'d| would)) (?:be|feel|sleep|"
    r"make \w+) "
    r"(?:\w+ ){0,3}?(?:happier|happy|glad|better|relieved|comfortable|safer|easier|nice|nicer|good|great|best|sad|"
    r"unhappy|"
    r"angry|upset|cross) if\b.*\b(?:stay\w*|kept|keep|remain\w*|never|no|only|always|not|didn't|doesn't|weren't|"
    r"wouldn't|"
    r"could still|still|every|all|each|without|under|at most|same|changed|broke|touched)\b",
    r"\bi(?:'d| would) (?:be grateful|appreciate|be glad|be happy) (?:if|it if)\b.*\b(?:no|not|never|only|keep|stay|"
    r"without)\b",
    r"\b(?:important|crucial|critical|essential|vital)(?: is| to me| for us)?(?: that|:)",
    r"\b(?:is|are) out[.!]*$|\b\d+ \w+ each\b|\bone at a time\b|\b(?:look|focus|search|check|work) only\b",
    r"\bone (?:commit|test|file|function|class|pr|change|line|sentence) (?:per|for each|for every|each)\b|\bsmall "
    r"commits\b",
)
"""What holds from here on: limits, preferences, conventions."""

RULES = table(
    r"\b(?:requirements?|rules?|constraints?|conditions?|conventions?|guidelines?|restrictions?|ground rules|house "
    r"rules|"
    r"house style|boundaries|limits|preferences|must-haves|non-negotiables|things to (?:keep|watch|respect|note)|"
    r"please (?:note|observe|respect|follow|keep in mind)|as always|don'ts|please:|standing orders|bear in mind)\b"
)
"""A lead under which every item is a rule."""
