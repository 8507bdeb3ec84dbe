class Problem(Exception):
    """What the caller can mend, in one line."""
