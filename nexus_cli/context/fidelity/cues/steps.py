"""How the assistant announces work to come."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import table

PLANNED = table(
    r"\bplan(?: of (?:action|attack|record))?\b(?! b\b)|\bproposal\b|\bproposed\b|\bnext(?: up| steps?)?\b|"
    r"\bsteps?\b|\bremain(?:s|ing|der)?\b|"
    r"\b(?:to-?dos?|open (?:items|points|work)|outstanding|pending)\b|\bstill (?:to (?:do|come)|open|missing|needed|"
    r"left|outstanding)\b|"
    r"\bwhat(?:'s| is) (?:left|missing|next|still)\b|\b(?:is|are) (?:left|missing|still open)\b|\bleft (?:to do|"
    r"over)\b|\bnot (?:yet )?done\b|\bprogress\b|"
    r"\b(?:i|we)(?:'ll| will|'d| would| am going to|'m going to| want to| intend to| suggest)\b|\broadmap\b|"
    r"\bafterwards\b|\bthen:|\border\b|"
    r"\blater\b|\bstages?\b|\bphases?\b|\bmilestones?\b|\bchecklist\b|\bstatus\b|\bto finish\b|\bfollow-?ups?\b|"
    r"\bapproach\b"
)
"""A lead under which every open item is a step to come."""

NOT_PLANNED = table(
    r"\b(?:findings?|found|results?|changes (?:made|so far|are)|changed|what (?:i|we) (?:did|changed|tried|found|"
    r"learned)|(?:is|are|was|were) done|"
    r"done so far|already done|completed|finished|summary|options?|ways? (?:out|to)|choices?|alternatives?|either|"
    r"reasons?|causes?|problems?|issues?|"
    r"bugs?|possib\w+|tried|differences?|notes?|caveats?|risks?|questions?|to (?:reproduce|run|install|use|try|"
    r"verify|set up)|how to|"
    r"you (?:can|could|should|have|need|may|will)|works? like|happens?|step by step|files?|usage|example|where|"
    r"differ|measured)\b"
)
"""A lead under which items are something else."""

ANNOUNCED = table(
    r"\b(?:next|last|final|remaining|second|third|other) (?:steps?|items?|pieces?|tasks?|jobs?) (?:is|are|will be|"
    r"would be)\b|"
    r"\b(?:one|two|three|some|a few|\d) (?:more )?(?:things?|steps?|points?|items?|tasks?|parts?) (?:left|open|"
    r"missing|remaining|to "
    r"go|to do)\b",
    r"^(?:and |but )?(?:if|should|unless) (?!you (?:want|like|prefer|wish|need|would)\b).{1,100}, (?:then )?(?:i|"
    r"we)(?:'d|'ll| would|"
    r" will| can)\b(?! (?:not|be|never|have|know|see|say|guess|need|expect|like|prefer|suggest|recommend))",
    r"\b(?:i|we) have (?:this|that|the following|these|two|three|\w+ (?:things|steps)) in mind\b|\bon (?:my|the|"
    r"our) (?:list|"
    r"agenda|plate|to-?do)\b(?! (?:was|were|of))|\b(?:scheduled|planned|slated|queued|reserved) (?:for|next|after)\b|"
    r"\bthe rest "
    r"of (?:the|this) (?:week|day|session|work)\b.*:",
    r"\b(?:i'd|i would|i'll|we'd) (?:leave|save|keep|postpone|defer) .{0,80}\b(?:after|later|until|tomorrow|next|"
    r"follow-?up|separate)\b",
    r"\b(?:i'd|i would|i|we|i'll)\b.{0,30}\b(?:suggest|propose|recommend|start|begin|do|add|write|make|fix|"
    r"move)\b.*\bfirst\b.*\bthen\b|\bfirst\b.*\b(?:only|and) then\b",
    r"^(?:and )?then (?:i|we)(?:'ll| will)\b|\bremaining(?: \w+){0,2}: ?\S|\bi(?:'ll| will) (?:do|continue|go on|"
    r"finish|tackle|add|write|handle) .{1,80}\b(?:tomorrow|later|"
    r"afterwards|next|in a follow-?up|in a second step|separately)\b",
    r"^(?:and |so |then |once .{1,60}, |when .{1,60}, |if .{1,80}, )?(?:next|after that|afterwards|later|thereafter|"
    r"subsequently|finally|in a second step|"
    r"in the next step|as (?:the|a) (?:next|second|third|last|final|following) step|tomorrow|as a next step|"
    r"after this|from there)\b.{0,40}\b(?:i|we|i'll|we'll|comes?|is|are|"
    r"will|the)\b",
    r"\b(?:next|after that|afterwards|later|thereafter|subsequently|finally|and then|, then|; then|once .{1,60},|as "
    r"soon as .{1,60},|when .{1,40} (?:is|are) "
    r".{1,20},) (?:i|we)(?:'ll| will|'m going| am going|'d| would| want| plan| intend| can| need)\b",
    r"\b(?:i|we)(?:'ll| will|'m going to| am going to| plan to| intend to| want to| still (?:need|have|want) to| "
    r"would (?:then|next|also))\b.{1,200}"
    r"(?:, then|; then| and then|, and after|; after|\bafter that\b|\bafterwards\b|\bnext\b|\blater\b|, followed by|"
    r"\bonce\b|\bas soon as\b|\bwhen (?:that|the|this|it)\b|\bfinally\b|\bin a follow-?up\b|\btomorrow\b|\bbefore i\b)",
    r"\b(?:still to do|still to come|still missing|missing|not (?:yet )?done(?: yet)?|remaining|left to do|to-?do|"
    r"next steps?|next up|what(?:'s| is) left|up next|the plan|my plan|plan)(?: (?:is|are|now|then|here))?(?::\s*\S| "
    r"is to\b| are to\b| is\b(?=.* (?:to|then)\b))",
    r"\bwhat (?:i'd|i would|i'll|i will|we'd) (?:do |tackle )?next\b|\b(?:i'd|i would|i'll|we'd) (?:do|tackle|look "
    r"at|take|try|suggest) .{0,40}\bnext\b|\b\w+ next, then\b",
    r"^(?:tomorrow|next|then|later|afterwards|remaining|open|left|to[- ]?do|up next|after that)\s?: ?\S",
    r"^(?:still to (?:do|come|follow)|still (?:open|missing)|remaining|open|left|outstanding|to follow|up next|"
    r"next)(?:, "
    r"[^:]{1,60},?|,| \([^)]{1,40}\))? ?: ?\S|^first,? (?:i|we)(?:'ll| will)? .*\b(?:then|after that|second|next)\b|"
    r"\bwhat (?:remains|is left|is missing|is "
    r"still missing)\b",
    r"\b(?:once|as soon as|when|after) .{1,80}[, ](?:i|we)(?:'ll| will)\b",
    r"\b(?:i|we) (?:still )?(?:need|have|plan|intend|aim|hope) to\b(?!.*\b(?:be honest|correct myself|know|ask|"
    r"admit)\b)",
    r"\b(?:remains?|is left|are left|still needs?|still has|still have|needs? to be|has yet|have yet|is still "
    r"missing|are still missing|will follow|follows later|(?<!what )comes? (?:next|last|second|third|at the end|"
    r"in the end|after that)\b|comes? later|"
    r"is next|are next|is up next)\b",
)
"""The assistant speaks of later work."""

AT_ONCE = table(
    r"\b(?:let me|let's|i'll (?:just |first |now |quickly )?(?:look|check|see|read|open|run|start by|take a look|"
    r"have a look|search|grep|begin)|i'm (?:now |just )?\w+ing|"
    r"now i'll|right now|in a moment|right away|i will now|first i'll|i'll start|let us)\b"
)
"""Work of this very moment."""

DONE = table(
    r"\bhave to (?:take (?:that|it|this) back|admit|apologi[sz]e|correct|say|ask|disappoint|confess|contradict)\b|"
    r", then[.!]*$|"
    r"\b(?:candidates?|questions?|doubts?|suspects?|options?|possibilities|problems?|errors?|failures?|warnings?|"
    r"explanations?|"
    r"causes?|mysteries|cases|theories) (?:remains?|(?:is|are) left)\b|(?:the following|as follows|"
    r"in this order)[.:]?$|"
    r"\bnothing (?:is left|remains|is missing)\b|^(?:nothing|no(?:ne| more)? (?:steps?|open|work)?)\b.{0,40}\b(?:left|"
    r"remains?|missing|open|outstanding|to do)\b|"
    r"\bis "
    r"what (?:remains|is left)[.!]*$|^(?:done\b|✓|✔|✅|\[x\]|~~|finished|completed|already)|(?:\(|— |- |: )(?:done|"
    r"finished|completed|✓|✔|"
    r"✅)\)?[.!]?$|^\w+ed (?!by\b|with\b|on\b|to\b|in\b)|[✓✔✅]$|\b(?:is|are) done[.!]?$"
)
"""A step behind us."""
