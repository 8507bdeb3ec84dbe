"""What all of the driver shares: its problems, what it says, numbers in texts."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXIT_RESUME = 75  # of `rossby train`: it was asked to stop and continues when started again


class Problem(Exception):
    """An error that the caller can correct."""

    code = 1


class NotFound(Problem):
    """A missing program."""

    code = 2


class Stopped(Exception):
    """A signal asked the study to end."""


def say(text):
    try:
        print(text, flush=True)
    except OSError:  # the reader is gone: a pipe into `head`, a lost terminal
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def scaled(value, ranks):
    """Returns `value` with {ranks} and {20*ranks} filled in."""
    text = re.sub(r"\{(?:(\d+)\*)?ranks\}", lambda match: str(int(match[1] or 1) * ranks), value)
    if re.search(r"\{[^{}]*ranks", text):
        raise Problem(f"{value}: only {{ranks}} and multiples such as {{20*ranks}} are filled in. Correct this value")
    return text
