"""The words for reasoning effort. Apart from `request`: the command line names them in its help."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The efforts that litellm knows; which of them a model takes is for its provider to say."""
DEFAULT_EFFORT = "default"
"""The word for the model's own effort: none is sent."""
