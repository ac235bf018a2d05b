"""The registry of contributors: each file exports a tuple `CONTRIBUTORS` and is discovered automatically; see
`contributor`."""
