"""The built-in tools: `NAME.json` defines one for the registry and the model, `NAME.py` implements it."""
