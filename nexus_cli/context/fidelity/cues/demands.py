"""What a person demands of the work: prohibitions and duties, and what only sounds like one."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import NUMBER, START, table, words

PROHIBITED = table(
    r"^(?:no[,.!]+ )?(?:never|not ever|under no circumstances)[,!]|\bnothing (?:that|which|with|requiring|needing|"
    r"involving|"
    r"beyond) (?!i\b|you\b|we\b|happened|changed|was\b)\w",
    START + r"(?:please )?(?:do not|don't|dont|do n't|never|not to|no longer|must not|cannot|avoid)\s+(?:ever )?"
    r"(?!worry|know|think|see|mind|care|understand|have to|need to|get it|get why|believe|like it)\w",
    r"\b(?:must not|mustn't|should not|shouldn't|shall not|may not|must never|should never|can never|is not to|are "
    r"not to)\b",
    r"\b(?:cannot|can't|can not|may) be (?:changed|touched|broken|renamed|removed|moved|used|longer|blocked)\b",
    r"\b(?:not allowed|isn't allowed|aren't allowed|not permitted|forbidden|prohibited|off[- ]limits|taboo|banned|"
    r"no[- ]go)\b",
    r"\b(?:nobody|no one|nothing|none of \w+) (?:is to|may|must|should|can|else|new|experimental|in|from|outside|but|"
    r"gets?)\b",
    r"\bnothing \w+ please\b|\b(?:nothing|nobody|no one|none)\b.{0,40}\b(?:may|must|should|can|is to|are to|shall)\b",
    START + r"(?:with |there (?:are|is) to be |i want |we want |still )?no (?!idea|problem|rush|need|worries|worry|"
            r"luck|"
    r"difference|change[,.]|wonder|way|matter|doubt|hurry|clue|longer|one|to (?:the|that|this|it|all|both)\b|"
    r"offen[cs]e|thanks|errors?\b|it |that |i |"
    r"we |you |the )"
    r"[\w\x00`\"'#.@/-]+",
    r"\bwith no (?:new|extra|additional|external|third|other|more|change|behaviou?r)\b",
    r"\brefrain from\b|\b(?:we|you|it|they) (?:can't|cannot|can not|can never) (?:break|lose|afford|change|drop|risk|"
    r"ship|expose|store|"
    r"raise|touch|require|depend|rename|delete|leave|publish|share)\b|\bgot? no new\b|\bgets? no \w+",
    r"\bwithout (?!it\b|success|luck|any luck|problems?)(?:\w+ing|a|any|the|new|extra)\b",
    r"\b(?:leave|keep) (?:.{1,60} )?(?:alone|untouched|unchanged|intact|as[- ]is|as (?:it|they) (?:is|are|was|were)|"
    r"where)\b",
    r"\bleave (?:the|my|our|that|those|these|everything|all|it|its|\x00|`)",
    r"\b(?:hands off|stay away from|stay out of|keep out of|keep away from|steer clear|under no circumstances|out of "
    r"scope)\b",
    r"\bnot (?:use|touch|change|edit|modify|add|remove|rename|break|commit|push|install|introduce|bump|reformat)\b",
    r"\b(?:we'd|i'd|we would|i would|let's|let us|we should|ideally|try to|rather) (?:really |rather |like to |"
    r"prefer to |please )?(?:avoid|not|keep|stay|stick)\b",
    r"^(?:but |and |just |only )*not (?:when|if|while|for|before|until|during|more than|unless)\b|\byou (?:can't|"
    r"cannot|can not|may not|mustn't|shouldn't|must not) (?!see|know|imagine|believe|be serious)\w",
    r"\bnot (?:a|one) single\b|\bwon't change\b|\bwill not change\b|\bneither .{1,60} nor\b",
)
"""What must not be."""

REQUIRED = table(
    r"\bmust\b(?! be (?:nice|hard|great|fun|an? |some|something|missing|wrong|there))(?! have)",
    r"(?<!\bi )(?<!\bwe )(?<!\byou )(?<!\bi'd )(?<!\bthey )(?<!n't )(?<!not )\b(?:has|have|needs|need|"
    r"ought) to (?!do with|go now|"
    r"admit|say|be honest|know)\w+",
    r"\bwe (?:have|need) to (?:be|stay|keep|remain|match|support|use|follow|respect|comply|stick|avoid|live)\b",
    r"\b(?:should|shall) (?!have\b|i\b|we\b|you\b|know\b|see\b)\w+",
    r"^if (?:you|in doubt|unsure|something|anything|it|there|a|the) .{1,80}, (?:please )?(?:ask|stop|tell|leave|skip|"
    r"use|say|don't|do not|just|keep|fail|prefer|then|warn|log|abort)\b",
    r"^(?:in|with|without|as|as an?|only|by|via) [^,]{1,40},? (?:please|pls|only)[.!]*$",
    r"\b(?:wants?|needs?|expects?|requires?|takes?|accepts?) (?:everything|all|them all|only|nothing but)\b",
    r"(?:^|[,;—–-] |\b(?:and|but) )(?:always|never)(?: (?!\w+s\b)\w+|[.!]*$)|, (?:always|never|ever)[.!]*$",
    r"\b(?:are|is) (?:required|mandatory|compulsory|essential|non-negotiable|a must|needed for every)\b|"
    r"\brequirement\b",
    r"\b(?:is|are) to (?:be|stay|remain|go|have|use|follow|run|keep)\b|\bonly .{1,40} (?:may|can|should|must|shall|"
    r"are allowed|is allowed)\b",
    r"\b(?:may|can|will|should|must|shall) only\b|\bonly (?:be|if|when|after|with|through|via|over|by)\b",
    START + r"(?:please )?(?:always|make sure|makes? certain|ensure|be sure|remember to|see to it|take care (?:to|"
            r"that|not))\b",
    START + r"(?:please )?(?:keep|stick (?:to|with)|stay (?:with|on|under|within|below|in|at|compatible)|preserve|"
            r"retain|"
    r"respect|follow|prefer|adhere|comply|limit|restrict|confine|cap|favou?r)\b(?! (?:going|on going|it up|up|me|in "
    r"mind))",
    START + r"(?:please )?(?:use|write|format|indent|name|prefix|document|type|annotate|wrap|sort|log|test|pin|target|"
    r"support|cover|mock)\b.{0,80}\b(?:only|always|everywhere|throughout|each|every|all|any|consistently|exclusively|"
    r"style|conventions?|spaces|tabs|not|no|rather than|from \S+\.\w+|as (?:usual|before|elsewhere))\b",
    START + r"(?:please )?use (?:the|our|tabs|spaces|british|american|only|english|plain|standard|type|single|double|"
            r"snake)\b",
    START + r"(?:please )?(?:(?:apply|touch|change|edit|modify|use|run|commit|add|include|look at|work (?:in|on)|"
            r"deploy|test)"
    r" )only\b|" + START + r"(?:please )?only (?!the (?:problem|thing|question|one|reason)\b)(?:apply|touch|change|"
                           r"edit|modify|use|run|commit|add|include|the|in|on|"
                           r"these|those|"
    r"this|that|what|\x00|`)",
    r"\b(?:before|after|whenever|every time|each time) (?:you|every|each|any)\b.{0,60}\b(?:commit|edit|change|touch|"
    r"push|run|"
    r"start|merge|finish|deploy|delete|release|go|write|it)\b",
    r"\b(?:write|name|use|keep|put|start|prefix|format|no|all|every|our)\b.{0,30}\b(?:commit messages?|branch names?|"
    r"variable names?|function names?|test names?|class names?|"
    r"docstrings|code comments|log messages|error messages|file names?|identifiers)\b",
    START + r"(?:please )?(?:comment|document|explain|test|log|name|type|format|check|validate|quote|escape|cite|"
    r"annotate|"
            r"work|proceed|change|edit)\b.{0,20}\b(?:generously|sparingly|thoroughly|carefully|heavily|liberally|"
            r"minimally|in "
            r"detail|consistently|properly|verbosely|conservatively|strictly|defensively|step by step|as you go)\b",
    START + r"(?:throttle|limit|cap|restrict|clamp|round|truncate|pad|indent)\b.{0,40}\b(?:to|at|by|with) ~?" + NUMBER,
    r"\bfrom now on\b|\bgoing forward\b|\bin (?:the )?future\b(?=.*\b(?:use|please|want|only|no)\b)|\bwhatever you "
    r"do\b",
    r"\bevery (?:\w+ ){1,5}?(?:needs|goes|gets|has|must|carries|should|is|takes|returns|ends|starts|comes|belongs|"
    r"stays)\b",
    r"\b(?:all|each|any) (?:new |public |of the |the |our )?\w+ (?:\w+ )?(?:needs?|goes|gets?|has|have|must|carry|"
    r"carries|"
    r"should|be|are to|is to|go|come|comes|end|ends|start|starts|take|takes|stay|stays|use|uses|belong|live)\b",
)
"""What must be, and how the work is to be done."""

FOREIGN = table(
    r"\bbitte (?:alle\w*|nur|immer|auf|keine\w*|ohne|stets)\b|\b(?:nicht|kein|keine|keinen|niemals|nie|immer|muss|"
    r"müssen|darf|dürfen|soll|sollen|bitte nur|unverändert|"
    r"ausschließlich|möchte|bleib\w*|sollte\w*|"
    r"auf keinen fall)\b",
    r"\b(?:ne|n')\s?\w+ (?:pas|jamais|plus|rien|aucun)|\b(?:jamais|toujours|doit|doivent|il faut|uniquement|sans)\b",
    r"\b(?:nunca|siempre|debe|deben|hay que|solamente|únicamente|sin|tiene que|no (?:uses|toques|cambies|modifiques|"
    r"borres|hagas|usar|tocar))\b",
    r"\b(?:sempre|devono|deve|senza|mai|soltanto|não|nunca|somente)\b",
)
"""Prohibitions and duties in German, French, Spanish, Italian and Portuguese."""

ENGLISH = words("the is are to of and it that you for this with be on have not i we please can a in what")
"""Two of these in a message make it English, where the words of other languages mean something else."""

SELF = table(
    r"\b(?:i|he|she|they|it|you|one|that|this|which|who|\w+s?) (?:was|were|has|have|had|always|never|already|often|"
    r"just|only) "
    r"(?:forgets?|forgot|get|gets|got|loved?|been|worked|used|happens|happened|thought|liked|hated|knew|wanted?|"
    r"returns?)\b",
    r"\bwe (?:only|just|never|always) (?:see|get|got|have|had|saw|found|notice\w*|hear|know)\b|\bnever (?:had|got|"
    r"was|been|saw|seen|heard|thought|knew|worked|noticed)\b",
    r"\bleave it[.!]*$|\bnever ?mind\b",
    r"\bi (?:always|never|only|just|can't|cannot|must|should|have to|need to|had to)\b",
    r"\b(?:don't|doesn't|didn't|do not) (?:know|understand|remember|see|think|get|care|have|work|help|matter|exist|"
    r"mean)\b"
    r"(?! to\b)",
    r"\b(?:if|unless) you (?:don't|do not|would) mind\b|\bdon't worry\b|\bno (?:worries|problem|rush|hurry)\b",
    r"\bmust be nice\b|\bmust have (?:been|broken|changed|gone)\b|\bshould be (?:fine|enough|easy|ok|good|working|"
    r"there by now)\b",
    r"\b(?:that|this|it) should (?:do|work|help|explain|fix|suffice|be (?:fine|it|all|enough|easy|ok|okay|good|quick|"
    r"there|done))\b|\bshould i\b|\bshould we\b",
    r"\b(?:it|this|that|he|she|they) (?:has|had) to (?:be|do) with\b|\byou (?:must|have to|should) (?:be|have) "
    r"(?:kidding|seen)\b",
)
"""Someone tells of themselves or of how things are: no rule, whatever words of a rule stand in it."""
