"""How a person says that something is wrong, or should be otherwise."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import START, table

CORRECTED = table(
    r"^(?:no|nah|noo+|nono\w*)[ ,.!]+(?:no\b|the |it |this |that |these |those |only |other )|^(?:nono|noo+|nonono)\b",
    r"^[\w\x00`.-]+ not [\w\x00`.-]+[.!]*$|\b(?:i|we) (?:mixed|confused|mistook|misread|got|muddled|swapped) (?:it|"
    r"them|that|"
    r"those|the two|things) (?:up|with|for|wrong)\b",
    r"\byou(?:'ve| have) (?:put|used|added|changed|removed|deleted|moved|left|made|broken|reverted|turned|set|written|"
    r"named|"
    r"renamed|taken|forgotten|ignored|missed|swapped|mixed|reintroduced|overwritten|dropped|lost|edited|touched)\b"
    r"(?!.*\b(?:great|nice|good|thanks|well|perfect|better)\b)(?!.*\?)(?<!what you've made)(?<!what you've written)",
    r"^i (?:wanted|needed|asked|ordered|was hoping|was expecting) (?!to (?:thank|ask|know|say|tell|see|try|show)\b)\w|"
    r"\bbut (?:it|they|"
    r"that|this|we) (?:should|must|needs? to|has to|have to|ought to)(?: not|n't)?[.!]*$|^(?:that's|this is|these are|"
    r"those are) "
    r"[^,]{1,40}, (?:we|i|it|they) (?:need|want|should|must|asked|wanted|needed|are (?:on|at|in|using))\b|^(?:and |"
    r"now |but |great,? )*(?:that|this|it|your \w+)"
    r" (?:broke|breaks|killed|deleted|removed|lost|ruined|messed)\b|\bis(?: not|n't) the (?:one|right)\b|"
    r"^your (?!welcome|turn|call|choice)[\w\x00`-]+ (?!is\b|was\b|looks?\b|works?\b|sounds?\b)\w{3,}(?<!s)s\b",
    r"^s/[^/ ][^/]*/[^/]+/|\b(?:premise|assumption|conclusion|diagnosis|guess|reasoning|logic|theory|analysis|idea|"
    r"interpretation|starting point) (?:is|was) (?:\w+ )?(?:off|flawed|false|backwards|mistaken|faulty)\b",
    r"\b(?:is|was|are|were)(?: all| just| plain| simply| completely)? (?:a lie|nonsense|bogus|fiction|rubbish|garbage|"
    r"outdated|obsolete|made up|a myth|a guess|lying|lies|bollocks|out of date)[,;:.—–-]+ .{0,120}\b(?:it's|it is|"
    r"they're|"
    r"they are|is|are|should|use|the real|really)\b|\b(?:i|we) told you (?:nonsense|rubbish|a lie|something wrong|"
    r"wrong)\b",
    r"^(?:and |but )?what you (?:call|called|named|took for|describe|described|labelled|think is|refer to as|treat as|"
    r"have "
    r"as)\b.*\b(?:is|are|was|were)\b|^(?:and |but |hm+,? )*yours\b",
    r"^(?:ha+ha*,? |hm+,? |but |no,? )*(?:it|this|that|they|these|the \w+(?: \w+)?) (?:was|were) (?:supposed|meant|"
    r"intended) "
    r"to\b|^(?:and |but )?(?:rip|take|throw|get) (?:it|that|the [\w-]+(?: [\w-]+)?|all of (?:it|"
    r"that)) (?:all )?(?:out|away|"
    r"off) again\b",
    r"\bnot (?:the|my|our|an?) [\w -]{1,40} (?:i|we) (?:reported|meant|asked|wanted|described|sent|mentioned|"
    r"had in mind|need|"
    r"gave|want|said|use|use[sd]?|ordered)\b|(?:,| as) you (?:wrote|said|put|made|did|used|set|had|took|assumed|"
    r"called|counted|gave|have|typed|"
    r"implemented)(?: it| them| that| only| just)*(?: \S+){0,3}[.!]*$",
    r"\b(?:left|leaves|leaving) out\b(?!.*\?)|\b(?:omitted|omits|missed the point)\b|\bi misspoke\b|\bi (?:gave|"
    r"told) you the wrong\b",
    r"^(?:no\b[ ,!.]*){2,}|^i (?:really )?(?:don't|do not|dont) (?:really )?like (?!to\b)|\b(?:that's|this is|that "
    r"is) (?:now )?the (?:second|third|fourth|\w+th) time\b",
    r"^your (?:first|previous|old|last|original|earlier|other) [\w-]+ (?:was|were|had|did)\b",
    r"\bit(?:'s|s| is) (?:actually )?(?:spelled|called|named|written)\b|^(?:small|one|tiny|quick|minor|"
    r"little) (?:correction|fix|mistake)\b",
    r"^(?:um+|uh+|er+m?|hm+|well|oh|ah|eh),? (?:no|nope|not)\b|\b(?:is|are) (?:flipped|mirrored)\b",
    r"^you (?:changed|edited|modified|formatted|reformatted|committed|pushed|set|switched|swapped|copied|guessed|"
    r"invented) (?!.*\b(?:great|nice|good|thanks|well|perfect)\b)",
    r"\bthe other way (?:a)?round\b|^typo\b|\btypos?:|\bmy fault[,:;]|\bstrike that\b|\bi (?:wanted|needed) .{1,60},? "
    r"(?:and )?not\b",
    r"^(?:no|nope|nah|non|nein|stop|wait|hold on|hang on|ugh|argh|hmm?|err|oops|sorry|wrong|incorrect|not quite|almost|"
    r"careful)[,.:;!…—–-]+(?: |$)",
    r"^(?:no|nope|wrong)\s+(?:i|that's|thats|that|it's|its|you|the|this|we|not|wrong)\b",
    r"\b(?:that's|thats|that is|this is|it's|it is|you're|you are|you were|was|is|are|were) "
    r"(?:all |just |still |simply |plain |completely |totally |the )?(?:wrong|incorrect|mistaken|not right|not "
    r"correct|not true)\b",
    r"\b(?:that's|thats|that is|this is|that was|this was|it's|is|was|were|isn't|wasn't) ?(?:not|n't)? ?(?:at all )?"
    r"(?:what|how|where|the way|the one|why|who) (?:i|we|it|they|that|you) (?:asked|meant|mean|wanted|want|said|had|"
    r"need|needed|"
    r"should|was supposed)\b(?<!that's what i meant)",
    r"\b(?:not|isn't|wasn't|never) what (?:i|we) (?:asked|meant|wanted|said|had|need)\b|\bnot as (?:i|we) (?:asked|"
    r"said)\b",
    r"\bi (?:actually |really |obviously )?(?:meant|was talking about|was asking (?:for|about)|did not (?:ask|say|"
    r"mean)|"
    r"didn't (?:ask|say|mean)|never (?:asked|said)|asked (?:you )?for|said|told you (?:to|not|that|it|about|"
    r"this))\b(?! (?:thanks|hello|hi))",
    r"\b(?:misunderstood|misread|misunderstanding|mixed up|mix-up|got (?:it|that|this|them|the .{1,30}) (?:wrong|"
    r"backwards|"
    r"the wrong way)|swapped|confused|overlooked)\b",
    r"\byou (?:forgot|missed|broke|deleted|removed|skipped|ignored|dropped|assumed|changed the wrong|edited the wrong|"
    r"touched|reverted|lost|should have (?:been|used|done|asked|kept|left|put|\w+ed)|shouldn't have|were supposed|"
    r"put (?:it|them|that) in the wrong)\b",
    r"\b(?:the )?wrong (?:file|way|order|branch|port|version|one|place|folder|directory|table|column|name|path|test|"
    r"repo|"
    r"function|direction|value|number|key|unit|language|approach|format|module|class|package|date|time|again)\b",
    r"^(?:hm+,? |well,? |ah,? |oh,? |sorry,? |wait,? |ok(?:ay)?,? |no,? |and |but |hey,? )*actually\b(?!.*\?)",
    START + r"(?:scratch|undo|revert|abort|cancel|ignore|forget|drop) (?:that|what i said|my last|the last|my "
            r"previous)\b",
    r"\b(?:on second thoughts?|i changed my mind|change of plans?|i take that back|my (?:mistake|bad)[,:;]|i was wrong|"
    r"correction:|to be (?:clear|precise)[,:])",
    r"\b(?:should|must|ought to|supposed to) (?:have been|be) .{1,60}(?:,| and) not\b|\bis (?:supposed|meant) to be\b",
    r"\b(?:is|are|was|it's|its|they're|that's|live|lives|sits|goes|runs|called|named|spelled|means|go with|want)"
    r" .{1,80}?(?:,| and) not (?:in |on |at |to |the |with |for |a |an |by |from )*[\w\x00`\"'./:-]+",
    START + r"(?:stop|quit) (?!the |a |an |it\b|by\b|at\b|when|if)\w+ing\b",
    r"\b[\w.:]*\d[\w.:]*,? (?:and )?not [\w.:]*\d",
    r"^(?:we|it|they|i|the [\w-]+(?: [\w-]+)?) (?!must|should|shall|may|can|please|never|always|don't|do not|will|"
    r"need)[a-z]+ [^,]{1,60}, not ",
    START + r"(?:revert|undo|roll back|put back|take back|back out|restore) (?:your|the last|that|those|these|it|all|"
            r"my|this)\b",
    r"^(?:no, |nope, )?not (?:that|this|the|there|in|on|like|what|how|those|these)\b(?! (?:bad|much|sure|it matters))",
    r"\b(?:before|since|after|because of|by|with) your (?:last |latest |previous |recent )?(?:change|edit|commit|fix|"
    r"refactoring|patch|version|rewrite)\b",
    r"^(?:way |far |much |a bit |still |that's |it's |this is )*too (?:long|short|big|small|slow|verbose|complicated|"
    r"complex|much|many|clever|late|dark|bright|wide|narrow)\b",
    r"\b(?:that's|it's|this is|that is) (?:not|un)\s?(?:readable|usable|maintainable|needed|necessary|enough|it|"
    r"helpful|clear|finished|complete|working|how|why|where)\b",
    r"\b(?:is|are|looks?|reads?) (?:misleading|confusing|unreadable|ugly|broken|incorrect|incomplete|inconsistent|"
    r"inverted|reversed|swapped|upside down|misplaced|redundant|duplicated|overkill)\b",
    r"\bgo back[.!]*$|\bwas better\b|^nah\b|\b(?:has|have|had) nothing to do with (?:it|this|that)\b",
    r"^your (?!welcome|turn|call|choice)[\w\x00`-]+(?: [\w-]+)? (?:match|is|are|was|were|do|break|return|use|has|"
    r"have|put|miss|ignore|assume|still|also|only|now|fail|change|remove|add|make|take|count|treat)\w*\b"
    r"(?!.*\b(?:great|nice|good|fine|perfect|right|correct|thanks)\b)",
    r"\b(?:mixes|mixed|mixing) up\b|\bduplicates (?:what|the|code)\b|\bcontradicts?\b|\bnow .{1,60}(?:, no longer|, "
    r"not|instead of| no longer)\b",
    r"\bnot (?:acceptable|good enough|okay|ok|correct|right|true|the (?:point|idea|case|same))\b",
    r"\b(?:was|were) (?:right|correct|intended|intentional|deliberate|on purpose|better before|there for a reason|"
    r"meant)\b",
    r"^you (?:put|used|wrote|made|added|named|chose|hard-?coded|left|kept|moved|renamed|replaced|turned|took|went|"
    r"only|still|also|again|just|have|did|didn't|"
    r"already)\b(?!.*\b(?:great|nice|good|thanks|thank|well|perfect|please)\b)",
    r"\byou(?:'re| are) (?:over|mis|still|again|going|repeating|ignoring|guessing|assuming|looking at the)\w*|"
    r"\bmisspel\w+|\boff by (?:one|a|an)\b",
    r"\b(?:isn't|aren't|is not|are not|wasn't|it's not|its not|that's not|they're not) (?!sure|only|just|even|"
    r"because|yet|that |much|a problem).{1,80}?[,;—–-] ?(?:but |it's |its |"
    r"it is |they are |they're |that's |rather |it should |it must )",
    r"\b(?:use|take|make it|do|go with|try|want|\w+) .{1,60}\binstead\b(?! of (?:a|the) (?:few|day))|\binstead of\b|"
    r"\brather than (?:what|the one)",
    r"\b(?:come|comes|came|turn|turns|turned|going|went|go|goes|still) (?:out )?(?:wrong|backwards|upside down)\b",
    r"\b(?:you|that|this|it) (?:still )?(?:doesn't|does not|didn't|did not) (?:do|match|read|answer|follow|listen|"
    r"respect) what\b",
    r"\bgo back to\b|\bput (?:it|that|them) back\b|\bas i (?:said|wrote|told|asked)\b|\bi said\b|\blike i (?:said|"
    r"asked)\b",
    r"\b(?:please )?re-?read (?:what|my|the)\b|\bread (?:again|my|it again|properly)\b|\bnot the other way\b|\bvice "
    r"versa\b",
    r"\blike a sane person\b|\bthere (?:is|are|was) no such\b|\bdoes not exist\b(?=.*\byou\b)",
    r"\b(?:nicht|kein\w*) .{1,40}, sondern\b|^(?:nein|falsch)\b|\bich meinte\b|\bc'est pas\b|\bje voulais dire\b|"
    r"\bquise decir\b",
)
"""The person says that something is wrong, or should be otherwise."""

CURT = table(r"^(?:wrong|incorrect|false|nope|nein|falsch|stop|almost|close|not quite)[.!]+$")
"""A verdict of a word: a correction where something follows."""

PRAISED = table(
    r"^(?:no|nope|nah)[,.!]? (?:problem|worries|rush|hurry|need|thanks|thank|idea|offen[cs]e|big deal|that's (?:fine|"
    r"ok|all|great)|"
    r"it's (?:fine|ok)|go ahead|all good)",
    r"\bwhat i (?:meant|wanted)[.!]*$|\bthat's (?:the \w+|exactly what|what) i meant\b|^(?:yes|yep|exactly|right|"
    r"correct)[,.!]",
    r"\bnot (?:bad|sure|too|yet|so|only|much|really|that (?:bad|much|many|i|it|"
    r"important|hard|difficult|great|good|easy|sure|long|big|urgent))\b",
    r"\bi (?:really |quite |actually |rather |do |kind of )*(?:like|love|enjoy|appreciate|admire|agree)\b(?!.*\b(?:but|"
    r"instead|however|rather)\b)|\b(?:made me (?:laugh|smile)|well done|good (?:catch|job|work|point|call))\b",
)
"""Words of a correction that are none."""
