class Problem(Exception):
    """An error that the user can correct. Its text is one line."""
