"""What sounds like a demand and is none: praise, jokes, small talk, tales, rules of others for something else."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import table

EMPTY = table(
    r"^(?:it |all |everything |that |this |now )*(?:works?|worked|built|builds?|passe[sd]|compile[sd]|runs?|ran|"
    r"looks?|fine|good|"
    r"great|super|green|deployed|installed|done|perfect)\b.{0,40}, (?:and |with )?no (?:warnings?|errors?|failures?|"
    r"problems?|"
    r"issues?|crash\w*|complaints?|surprises?|regressions?|hiccups?|trouble)(?: at all)?[.!]*$|^let(?:'s| us|"
    r" me) (?:see|look|check|"
    r"find out|wait|hope)\b|^(?:\w+ )?sounds? ",
    r"^no to (?:the|that|this|it|all|both)\b|^no [\w ]{1,30}, (?:sorry|unfortunately|i'm afraid|but thanks|yet|"
    r"as far as)\b|\bshould(?:n't| not) (?:even|really|have)\b|\b(?:are|is|am|was|were|'re|'m) (?:nobody|nothing|"
    r"no one)\b|"
    r"\bnever (?:get|gets|be|feel|felt) (?:tired|old|bored|hungry|sick|lonely|used to)\b",
    r"^(?:so )?must be (?:mon|tues|wednes|thurs|fri|satur|sun)day|^(?:and |but )?only (?:the|one|two|"
    r"a) [\w ]{1,30}\b(?:failed|"
    r"\w{2,}ed|was|were|broke|is left|remains?|is missing)[.!]*$|\b(?:don't|dont|do not) (?:ask (?:me|why|how|about)|"
    r"laugh|judge|"
    r"panic|hate|get me wrong|be (?:afraid|sorry|shy|silly)|feel|tell (?:anyone|anybody|my)|remind me|"
    r"you (?:just )?love)\b",
    r"^(?:and |but )?only (?:joking|kidding|teasing|asking|saying|wondering|guessing|curious|human|\w+ (?:left|"
    r"more to go))\b",
    r"^(?:\w+, |and |but |so |well,? |there (?:is|was) )*no (?:notes?|complaints?|comments?|remarks?|objections?|"
    r"surprises?|"
    r"regrets?|pressure|news|questions?|feedback|pun|joke|kidding|shame|harm|sweat|answer|reply|response|trace|sign|"
    r"evidence|progress|thoughts?|opinion|wait|thank\w*|stress|excuses?|blame|hard feelings|drama|bueno|fun|such luck|"
    r"one|point|memory|recollection|strong (?:feelings?|opinions?|preference))(?=[.,;:!)]|$| (?:from|so|yet|on|at|of|"
    r"either|here|"
    r"today|whatsoever|this|that|to|in|for)\b)",
    r"^(?:and |but |so )*(?:nothing|nobody|no one|none)(?: else| new| more| really| much)* (?:from|to (?:report|say|"
    r"add|"
    r"complain|worry|see|do)|came|happened|changed|complained|objected|on my|for (?:now|today)|broke|of note|noticed|"
    r"said|knows?|knew|uses?|used|cares?|wrong|special|serious|urgent|was|were|is (?:perfect|wrong|broken|lost|"
    r"on fire)|"
    r"remains|comes|beats|like|to it|but praise|in (?:sight|life|the logs?))\b",
    r"\balways (?:an? |such |nice|good|great|fun|happy|glad|welcome|the (?:last|first|same|way|case|quiet|little|"
    r"small))"
    r"|\b(?:always|never) (?:a|an|in doubt|mind|gets? old|ceases?|fails? to|thought|knew|would|had|did|could|was|were|"
    r"seen|heard|saw|been|liked|loved|understood|tried|noticed|expected|before|again[.!]*$|ends?[.!]*$|happens|"
    r"happened)"
    r"(?: |$|[.!,])",
    r"^(?:and |but |so |which |who |that |it |still )*(?:never|always|only|no longer|rarely) "
    r"(?!(?:\w*(?:ss|us|is)|always)\b)\w{2,}s\b(?! (?:for|in|from|to be|please|only|allowed|and)\b)",
    r"\b(?:must|has to|have to|had to|needs? to) (?:have|admit|confess|say|be (?:because|due|how|why|love|magic|tired|"
    r"related|joking|kidding|old age|honest|proud|monday|said|something|someone|somebody|nice|fun|hard|great|tough|"
    r"weird|the (?:cache|network|weather|heat|reason|cause|proxy|same|problem))|laugh|smile|run now|go now|leave "
    r"(?:now|at|soon|early)|catch|pick up|dash|cry)\b",
    r"\bshould (?:arrive|come (?:back|in|on)|be (?:back|here|able|proud|ready|around|home|enough|fine|easy|safe now|"
    r"there)|"
    r"know|see|notice|hear|probably have|have|take (?:you|me|about|only)|really (?:sleep|eat|go))\b",
    r"\b(?:somebody|someone|everybody|everyone|he|she|my \w+|the (?:boss|kids?|dog|cat)) (?:has|have|had|needs?|"
    r"ought) to\b",
    r"^(?:i|we|he|she|they)(?:'ll| will|'m| am|'re| are|'d been)? (?:be |go |going |just |only |off |out |"
    r"back )*(?:back|"
    r"lunch|away|home|afk|offline|on (?:holiday|vacation|leave|the train|a train|my way|a call)|in a (?:meeting|call)|"
    r"leaving|travelling|tired)\b",
    r"\bnot (?:bad|sure|to mention|a (?:problem|bad|big deal|fan)|that (?:i|it|bad|important)|my (?:day|best|"
    r"favou?rite|"
    r"fault|type|problem|job)|your (?:fault|day|best)|an expert|today|tonight|everyone|everybody)\b",
    r"\b(?:love|loving|loved|enjoy\w*|adore|impress\w+|charming|hilarious|funny|amusing|admire|congratulations|kudos|"
    r"well "
    r"done|good (?:job|catch|work|point)|nice (?:work|job|catch|one)|thank you|thanks|cheers|regards|"
    r"lgtm)\b(?!.*\b(?:but|"
    r"however|please|don't|must|should|keep|only|never|no)\b)",
)
"""A clause with a word of a rule that asks for nothing."""

JOKES = table(
    r"^(?:just |only |i'm |i am )?(?:kidding|joking|jk|teasing)\b|^(?:jk|never ?mind|scrap that|forget (?:it|that))\b"
)
"""The sentence before was not meant."""
WRY = table(
    r"^(?:please |now |and |ok,? |can you |could you )*(?:explain|describe|summari[sz]e|tell me|show me|recap|outline|"
    r"remind me|"
    r"elaborate|teach me)\b.{0,40}\b(?:why|how|what|where|when|that|who|whether|which|comment|rule)\b|\b(?:write|tell|"
    r"make|sing) "
    r"(?:me )?an? (?:haiku|poem|joke|song|story|limerick|sonnet|pun)\b",
    r"\bnote to self\b|^(?:it |that |this )?must be (?:nice|great|fun|hard|tough|wonderful|lovely|sad|boring|easy|"
    r"weird) to\b")
"""The whole sentence is small talk, or asks to be told of a rule."""

TOLD = table(
    r"\b(?:was|were|had|did|didn't|went|got|took|saw|found|came|ran|made|wrote|gave|(?:i|we|they|he|she) thought|knew|"
    r"broke|felt|looked|"
    r"happened|used to|been|tried|noticed|learned|learnt|remember|remembered|wondered|guessed|spent|asked|heard|met)\b",
    r"^(?:i|he|she)(?:'m|'s|'ll|'ve|'re)? (?!want|prefer|insist|expect|would|need|like|'d|don't (?:want|like)|"
    r"dont (?:want|like)|do not (?:want|like))\w+",
    r"^(?:funny|nice|great|lovely|good|haha|lol|wow|cool|sweet|amazing|interesting|sad|weird|strange|hm+|ah|oh|ha)\b",
    r"\b(?:apparently|by the way how|somehow|i guess|i think|i suppose|i believe|probably|perhaps|maybe)\b",
)
"""A tale of what was, or an opinion: the weak cues of a convention prove nothing in it."""

DESCRIBED = table(
    r"\b(?:template|text|message|mail|email|e-mail|letter|paragraph|section|page|notice|note|comment|announcement|"
    r"reminder|prompt|post|sentence|docstring|banner|checklist|guide|readme|tooltip|warning|error|dialog|slide|"
    r"poster)s? "
    r"(?:\w+ ){0,3}?(?:that|whose|which|where|saying|telling|reminding|explaining|warning|stating)\b.{0,40}"
    r"(?:\b(?:says?|tells?|reminds?|explains?|warns?|informs?|asks?|states?|(?<=\s)(?:saying|telling|reminding|"
    r"explaining|"
    r"warning|stating))\b)|\b(?:template|text|message|mail|email|letter|paragraph|section|page|notice|note|comment|"
    r"announcement|reminder|sentence|docstring|banner|tooltip|dialog|poster) (?:saying|telling|reminding|explaining|"
    r"warning|stating)\b",
)
"""The rules in it are what a text is to tell its own readers."""

CITED = table(
    r"\b(?:says?|said|writes?|wrote|recommends?|claims?|suggests?|advises?|argues?|preach\w*|teach\w*|taught|thinks?|"
    r"swears?|according to|insisted)\b"
)
"""Somebody else's rule begins."""
DISMISSED = table(
    r"\b(?:but (?:we|i|that|it|this|here|for us|our)|ignore|forget|nonsense|rubbish|outdated|don't care|do not care|"
    r"ha\b|"
    r"haha|lol|whatever|doesn't apply|does not apply|not for us|disagree|i don't (?:buy|agree)|we(?:'re| are) not|"
    r"we have "
    r"(?:two|one|no)|funny|silly|over the top|which i (?:find|think)|not our)\b"
)
"""And is waved aside."""

ONE_OFF = table(
    r"^(?:please |pls |ok,? |okay,? |now |then |and |so |also |just |next |first |can you |could you )*(?:rename|"
    r"replace|"
    r"swap|substitute|change|convert|move|delete|remove|drop|fix|correct|translate|apply|insert|add|put|update|migrate|"
    r"port|inline|extract|search)\b"
)
"""A task for once: that it is to be done everywhere makes no rule of it."""
WIDE = table(r"\b(?:throughout|everywhere|as elsewhere|like everywhere|as everywhere)\b")
"""Cues of a rule, but in a task."""

LONE = table(
    r"^(?:tabs|spaces|camel ?case|snake[_ ]case|kebab[- ]case|pascal ?case|utc|english|german|british|american|metric|"
    r"lf|"
    r"crlf|utf-8|ascii|semicolons|python ?3|es6|esm|typescript|imperative|lowercase|uppercase|offline|read-only)[.!]*$"
)
"""A convention in one word."""

AUTHORITY = table(
    r"\b(?:quoting|quote|verbatim|literally|from|per|as per|according to)\b.{0,60}\b(?:customers?|clients?|wiki|team|"
    r"contract|polic(?:y|ies)|spec\w*|requirements?|standards?|guidelines?|guide|handbook|legal|security|audit\w*|ops|"
    r"management|boss|manager|product|licen[cs]e|law|regulations?|rfc|rules|ticket|tender|sla|agreement|hospital|"
    r"bank)\b"
    r".{0,40}[:,] ?[\"“'\x00]",
    r"\b(?:customers?|clients?|legal|security|auditors?|ops|management|boss|manager|product owner|contract|policy|"
    r"lawyers?|"
    r"team lead|cto|ceo|qa|regulator|authority|dpo)\b.{0,40}\b(?:says?|said|writes?|wrote|demands?|insists?|wants?|"
    r"states?|"
    r"requires?|put it)\b.{0,40}[:,] ?[\"“]",
)
"""A rule of somebody whose word counts is quoted."""

ENDORSED = table(
    r"(?:\bis|'s|\bare|\bwas) right\b|\b(?:has a|good) point\b|\b(?:agree|applies|valid|so there|that's that)\b",
    r"\bdo (?:it|that|so|as|like)\b|\bas (?:she|he|they) (?:says?|asks?|wants?|wrote)\b|\bknows? what\b|\bwe wait\b",
    r"\b(?:please |so |then )?(?:follow|adapt|respect|adopt|take care of|stick to|keep to)\b|\b(?:binding|in force)\b",
    r"\bholds? (?:for us|here)\b|\bfor us(?: too| also)\b|\b(?:for|to) us as well\b|\bgoes for us\b",
)
"""The words of somebody else that are quoted beside it are to hold."""
WAVED_ASIDE = table(
    r"\b(?:ignore|disagree|ha+ha+|lol|funny|for your information|fyi|entertainment|doesn't concern|not for us|"
    r"nothing to do for us|don't care|wonder|typical|joke|gag|settled|answered|just so|only so|only that)\b|"
    r"\bsays that (?:to|under)\b"
)
"""They are passed on, but not to be followed."""
