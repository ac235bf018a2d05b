"""The next request as one value; `README.md` says what reads it."""
