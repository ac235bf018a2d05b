"""The built-in tools: each module exports `TOOL`, its description for the model is the `.md` file beside it."""
