"""The built-in tools: `NAME.json` is what the registry and the model know of one, `NAME.py` what it does."""
