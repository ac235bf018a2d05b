"""How an open question is asked, and what only looks like one."""

from __future__ import annotations

from nexus_cli.context.fidelity.cues.table import table, words

ASKS = words(
    "what which who whom whose where when why how is are was were do does did can could should shall would will has "
    "have had may "
    "might am warum wieso weshalb was wie wo wann wer welche welcher welches ist sind kann können soll sollen hat "
    "haben gibt pourquoi comment quel "
    "quelle quels est-ce où quand qué cómo cuándo dónde cuál isn't aren't doesn't don't didn't won't can't couldn't "
    "shouldn't wouldn't any anything want wanna or ok okay does"
)
"""Words that a question begins with."""

BARE = table(r"^(?:and |but |so |ok |hm+ |hi |hey )*(?:why|how|what|where|when|who|which)(?:'s| (?:is|are|do|does|"
             r"did|was|were|can|should|would|about))\b.{3,80}[^.:!?,]$")
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

OFFERS = table(
    r"\bneed .{1,40}\b(?:decisions?|answers?|input|information|word|confirmation|go-ahead) from you\b",
    r"\bi(?:'d| would)? (?:still )?need to know (?:whether|if|which|what|how|where|when)\b",
    r"\b(?:let me know|tell me|just say|please (?:confirm|say|tell me|let me know)) (?:if|whether|which|what|how|"
    r"when|where) (?:you(?:'d| would| want| prefer| like)|i should|i shall|to|one|of|variant|way)\b"
    r"(?!.*\b(?:questions?|anything|trouble|problems?|need help)\b)",
)
"""A question without its mark."""

ANSWERED = table(r"^(?:because|since|it(?:'s| is) because|the (?:reason|answer|cause)|simple|simply|so that|that's "
                 r"because|well,|yes[,:. ]|no[,:. ])")
"""How the answer to one's own question begins."""

RHETORICAL = table(
    r"^(?:right|ok|okay|really|seriously|huh|eh|no|yes|see|you know|who knows|who cares|why not|what else|so what|"
    r"what now|you see|"
    r"isn't it|doesn't it|won't it|get it|remember|what could go wrong|how hard can it be)\?",
    r"\bhow (?:can|may|could) i (?:help|assist)|\bwhat (?:can|could) i do for you|\banything else\b.{0,30}\?$|"
    r"\bwhat's (?:up|new)\b",
    r"\bwhy (?:on earth|the hell|is|are|does|do|did|am) .{0,80}\bstill\b|\bhow many times\b|\bare you (?:kidding|"
    r"serious|sure you read)"
    r"|\bwhat the (?:hell|heck)|\bwho (?:on earth|the hell|wrote|does that)\b|\bcan(?:'t)? you (?:even )?read\b|"
    r"\bhow hard\b",
)
"""A question that wants no answer."""
