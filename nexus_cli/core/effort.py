"""The words for reasoning effort. Separate from `request`, so that the help of the command line need not import it."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The efforts that litellm knows; a provider may refuse some for a model."""
DEFAULT_EFFORT = "default"
"""The word for the model's own effort: the request has no effort then."""
