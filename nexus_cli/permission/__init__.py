"""Whether a call runs, a person is asked, or it is refused."""
