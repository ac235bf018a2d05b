"""The words by which people show what they mean, as tables: one file for each thing meant, no code in them.

Which tables a sentence matches is part of what `features` tells of it; no table decides alone.

English first; other languages have the few words that carry a prohibition or a duty. Cues are looked for in folded
clauses (`prose.fold`). Every pattern is bounded and free of nested repetition.
"""
