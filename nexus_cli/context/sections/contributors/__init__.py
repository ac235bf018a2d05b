"""The registry of contributors: each file exports a tuple `CONTRIBUTORS` and is found by itself; see `contributor`."""
