"""Replace characters: lone surrogates, which neither UTF-8 nor a database accepts, and those that a terminal obeys."""


def replace_surrogates(text: str) -> str:
    """Return `text` with every lone surrogate replaced by U+FFFD, so that it can be stored and sent as UTF-8."""
    if text.isascii():  # known without looking at the characters
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mask_unprintable(text: str) -> str:
    """Return `text` with `?` for every character that is not shown as it is, such as one that controls the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
