"""The JSON that programs read: a `TypedDict` for each report, stream line and result of the server.

Builders import these for mypy alone: at runtime `nexus docs json`, `/openrpc.json` and the tests do. Without
`from __future__ import annotations`, since evaluating the annotations at once is cheaper than as strings.
"""
