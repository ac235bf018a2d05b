"""How an open question is asked, and what only looks like one."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import table

BARE = table(r"^(?:and |but |so |ok |hm+ |hi |hey |btw,? |also,? |oh,? |sorry,? |quick question:? |"
             r"question:? |one question:? )*(?:why|how|what|where|when|who|which)(?:'s| (?:is|are|do|does|"
             r"did|was|were|can|should|would|about))\b.{3,200}[^.:!?,]$")
"""A question of somebody who does not type the mark."""

SHORT = table(r"^(?:and|or|but)? ?(?:the |your |my |our |what about |how about )?[\w-]+(?: [\w-]+){0,5}\?$")
"""A question of a few words, behind another one."""
OPENED = table(r"^(?:and |so |but |ok |then )*(?:what|which|who|whom|whose|where|when|how) (?!about (?:you|adding|"
               r"using|making))")
"""A question whose first word asks for something, whoever is asked to tell."""

REQUESTS = table(
    r"\b(?:can|could|would|will|won't|can't|couldn't|may|might) (?:you|u|ya|we (?!.*\b(?:without|still|even|safely|"
    r"assume|be sure|tell|trust|avoid)\b)|i (?:ask|trouble|get you|have you))\b",
    r"\b(?:would|do|could) you (?:mind|be so kind|please)\b|\bhow about (?:you|adding|using|making)\b|\bwhy (?:don't|"
    r"not) (?:you|we|just)\b",
    r"\b(?:any chance|is it possible|could i get|can i get|can i have|may i have)\b",
)
"""A task in the form of a question."""

ADDRESSED = table(
    r"\bneed .{1,40}\b(?:decisions?|answers?|input|information|word|confirmation|go-ahead) from you\b"
)
"""An answer is wanted: a question where none with its mark follows."""

OFFERS = table(
    r"\bwhat i (?:still |really )?(?:need|want|would like|have) to know is\b",
    r"\b(?:tell me|let me know|please (?:confirm|say)) (?:whether|which|who|where|how many|how much)\b|, (?:right|"
    r"correct|yes|is that "
    r"(?:right|correct|so))\?$",
    r"\b(?:i(?:'m| am)|i was) (?:still |not quite |a bit )*(?:unsure|not sure|uncertain|undecided|unclear|in doubt|"
    r"torn)\b.*"
    r"\b(?:from you|your (?:call|decision|opinion|input|view|word|preference|take|thoughts|guidance)|tell me|"
    r"let me know|up "
    r"to you|what (?:do )?you (?:think|prefer|want))\b",
    r"\b(?:glad|grateful|happy) (?:of|for|about) (?:a|your|some) (?:word|hint|answer|opinion|decision|input)\b|"
    r"\b(?:it's|it "
    r"is|that's|that is) (?:up to you|your (?:call|decision|choice))\b",
    r"\bi(?:'d| would)? (?:still )?need to know (?:whether|if|which|what|how|where|when)\b",
    r"\b(?:let me know|tell me|just say|please (?:confirm|say|tell me|let me know)) (?:if|whether|which|what|how|"
    r"when|where) (?:you(?:'d| would| want| prefer| like)|i should|i shall|to|one|of|variant|way)\b"
    r"(?!.*\b(?:questions?|anything|trouble|problems?|need help)\b)",
)
"""A question without its mark."""

ANSWERED = table(r"^(?:because|since|it(?:'s| is) because|the (?:reason|answer|cause)|simple|simply|so that|that's "
                 r"because|well,|yes[,:. ]|no[,:. ]|i (?:just )?(?:looked|checked|grepped|searched|tested|measured)\b|"
                 r"(?:just |only |i'm )?(?:kidding|joking)\b|(?:jk|never ?mind|forget it|scrap that|found it)\b|"
                 r"(?:nobody|no one|none|nothing|apparently|turns out|it turns out|obviously|of course|exactly|not "
                 r"(?:really|at all)|never)\b)")
"""How the answer to one's own question begins."""

TAG = table(
    r"\b(?:is|are|was) an? .{1,80}, (?:isn't|aren't|wasn't|right|no|eh|huh)(?: (?:it|they|that|he|she))?\?$"
)
"""An opinion with a question behind it: one that goes on by itself wants no answer."""

RHETORICAL = table(
    r"^(?:right|ok|okay|really|seriously|huh|eh|no|yes|see|you know|who knows|who cares|why not|what else|so what|"
    r"what now|you see|"
    r"isn't it|doesn't it|won't it|get it|remember|what could go wrong|how hard can it be)\?",
    r"^(?:and |so |but )*who (?:the hell )?(?:told|asked|allowed|taught) (?:you|it) to\b",
    r"\bhow (?:can|may|could) i (?:help|assist)|\bwhat (?:can|could) i do for you|\banything else\b.{0,30}\?$|"
    r"\bwhat's (?:up|new)\b",
    r"\bwhy (?:on earth|the hell|is|are|does|do|did|am) .{0,80}\bstill\b|\bhow many times\b|\bare you (?:kidding|"
    r"serious|sure you read)"
    r"|\bwhat the (?:hell|heck)|\bwho (?:on earth|the hell|wrote|does that)\b|\bcan(?:'t)? you (?:even )?read\b|"
    r"\bhow hard\b",
)
"""A question that wants no answer."""
