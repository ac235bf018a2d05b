"""Agents in one process, and the JSON-RPC server in front of them."""
