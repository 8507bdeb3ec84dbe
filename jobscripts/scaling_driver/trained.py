"""What a run directory tells of its training: whether it has ended, and with which settings."""

import hashlib
import json
import math
import mmap
import os
import re

from .settings import tomllib

# Keys that do not affect training steps: a change does not make an ended run a different one.
FREE = re.compile(r"(log|checkpoint|evaluate)\.|train\.(stop_after|on_nan|rollbacks|rollback_lr)$|relation\.stream_folder$|"
                  r"parallel\.watchdog_seconds$")
# An ended training may continue with new values of these keys.
LIMITS = ["train.epochs", "train.early_stop", "train.max_seconds"]
PLACE = {"parallel.threads": "threads", "parallel.time_groups": "time_groups", "parallel.stages": "stages"}


def read_value(text):
    """Returns the meaning of a setting if it can be known: a number, a flag, a list, a text."""
    readers = [json.loads] + ([lambda word: tomllib.loads(f"x = {word}")["x"]] if tomllib else [])
    for read in readers:
        try:
            value = read(text)
        except ValueError:
            continue
        # For other TOML types, such as dates, the program takes the text.
        if isinstance(value, (bool, int, str, list)) or (isinstance(value, float) and math.isfinite(value)):
            return value
    return text


def differ(asked, trained):
    """True if two settings certainly differ; their spelling does not matter."""
    asked, trained = (read_value(value) if isinstance(value, str) else value for value in (asked, trained))
    if isinstance(trained, list) and not isinstance(asked, list):
        asked = asked.split(",") if isinstance(asked, str) else [asked]
    if isinstance(asked, list) and isinstance(trained, list):
        return len(asked) != len(trained) or any(map(differ, asked, trained))
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in (asked, trained)]
    if all(numbers):
        return float(asked) != float(trained)
    if type(asked) is type(trained):
        return asked != trained
    # Only `rossby train` can distinguish "0" of a text key from 0.
    return isinstance(asked, str) != isinstance(trained, str)


def same_file(one, other):
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


class Trained:
    """A run directory."""

    def __init__(self, directory):
        self.directory = directory
        self.begun = directory.exists()
        last = self.last_line()
        self.steps, self.place = last.get("steps", 0), last.get("place") or {}
        self.state = self.steps_of_state()

    def last_line(self):
        """Returns the last epoch's line of metrics.jsonl."""
        try:
            with open(self.directory / "metrics.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
                found = json.loads(file.read().splitlines()[-1])
        except (OSError, ValueError, IndexError):
            return {}
        return found if isinstance(found, dict) else {}

    def steps_of_state(self):
        """Returns the optimiser steps of the state that a training leaves at its end; 0 if there is none.

        They are in its metadata, which is plain JSON. File times would be less reliable, because a copy has new ones.
        """
        try:
            with open(self.directory / "checkpoints" / "state.h5", "rb") as file, \
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                found = re.search(rb'"optimiser_steps":(\d+)', content)
                return int(found[1]) if found else 0
        except (OSError, ValueError):  # an empty file cannot be mapped
            return 0

    def stamp(self):
        """Returns the time of the state in ns."""
        try:
            return (self.directory / "checkpoints" / "state.h5").stat().st_mtime_ns
        except OSError:
            return 0

    def ended(self):
        """True if the directory holds a state after the last epoch."""
        return self.state == self.steps > 0

    def config_sha256(self):
        """Returns the SHA-256 of config.toml; empty if there is none."""
        try:
            return hashlib.sha256((self.directory / "config.toml").read_bytes()).hexdigest()
        except OSError:
            return ""

    def settings(self):
        """Returns config.toml as {"train.epochs": 4}, from one key per line, as the program writes it."""
        try:
            text = (self.directory / "config.toml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return {}
        found, table = {}, ""
        for line in text.splitlines():
            if match := re.fullmatch(r"\[([\w.]+)\]", line):
                table = match[1] + "."
            elif match := re.fullmatch(r"(\w+) = (.*)", line):
                found[table + match[1]] = read_value(match[2])
        return found

    def differences(self, asked):
        """Returns [(key, trained value, requested value)] of settings {key: text} that differ."""
        found = []
        trained = self.settings()
        for key, value in asked.items():
            before = self.place.get(PLACE.get(key), trained.get(key))
            if before is None or FREE.match(key) or not differ(value, before):
                continue
            if key.endswith(".file") and same_file(value, before):
                continue
            if key == "train.epochs" and isinstance(before, int) and isinstance(read_value(value), int) and \
                    read_value(value) < before:
                continue  # it already has more epochs
            found.append((key, before, value))
        return found
