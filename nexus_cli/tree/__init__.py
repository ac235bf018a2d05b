"""A folder and what is in it: its states, the bytes of its files, and how a state is written."""
