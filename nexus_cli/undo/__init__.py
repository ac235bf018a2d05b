"""What the calls of a session changed in files, and the bytes to take it back."""
