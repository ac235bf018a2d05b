"""Record the changes of a session's calls in files, with the bytes to take them back."""
