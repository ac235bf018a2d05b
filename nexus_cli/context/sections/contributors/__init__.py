"""The registry of contributors: each file exports one `CONTRIBUTOR` and is found by itself; see `contributor`."""
