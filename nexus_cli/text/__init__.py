"""What every printer needs: the width of text, and text made harmless for a terminal."""
