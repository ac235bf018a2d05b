"""Acts: what can be done to a session beside a turn. Each is a function that returns an `Act` of `session_state`.

`Session.act` runs it like a turn: with events, stopped by `cancel`. An act gets the session's state and nothing else.
It changes the session through its lane and leaves memos.
"""
