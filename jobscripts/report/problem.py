class Problem(Exception):
    """An error that the user can mend, as one line."""
