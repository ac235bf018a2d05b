"""Replace lone surrogates in texts, which neither UTF-8 nor a database accepts."""


def replace_surrogates(text: str) -> str:
    """Return `text` with every lone surrogate replaced by U+FFFD, so that it can be stored and sent as UTF-8."""
    if text.isascii():  # known without looking at the characters
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
