"""nexus: a coding agent for the terminal whose context you can see, trust and afford."""

__version__ = "0.2.0"
