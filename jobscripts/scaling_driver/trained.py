"""What a run directory tells of its training: whether it has ended, and with which settings."""

import hashlib
import json
import math
import mmap
import os
import re

from .settings import tomllib

# What leaves the steps of a training as they are: changed on a run that has ended, it makes no other run.
FREE = re.compile(r"(log|checkpoint|evaluate)\.|train\.(stop_after|on_nan|rollbacks|rollback_lr)$|relation\.stream_folder$|"
                  r"parallel\.watchdog_seconds$")
# Of these a training that has ended may go on.
LIMITS = ["train.epochs", "train.early_stop", "train.max_seconds"]
PLACE = {"parallel.threads": "threads", "parallel.time_groups": "time_groups", "parallel.stages": "stages"}


def read_value(text):
    """A setting as it is meant, where that can be told: a number, a flag, a list, a text."""
    readers = [json.loads] + ([lambda word: tomllib.loads(f"x = {word}")["x"]] if tomllib else [])
    for read in readers:
        try:
            value = read(text)
        except ValueError:
            continue
        # Of TOML's other kinds, as dates, the program takes the text.
        if isinstance(value, (bool, int, str, list)) or (isinstance(value, float) and math.isfinite(value)):
            return value
    return text


def differ(asked, trained):
    """Whether two settings differ for certain; how they are spelled is not compared."""
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
    # "0" of a text key and 0 are told apart by `rossby train` alone.
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
        """What metrics.jsonl says of the last epoch."""
        try:
            with open(self.directory / "metrics.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
                found = json.loads(file.read().splitlines()[-1])
        except (OSError, ValueError, IndexError):
            return {}
        return found if isinstance(found, dict) else {}

    def steps_of_state(self):
        """Optimiser steps of the state that a training leaves at its end; 0: there is none.

        They stand in its metadata, which is JSON as it is. Times of files would say less: a copy has others.
        """
        try:
            with open(self.directory / "checkpoints" / "state.h5", "rb") as file, \
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                found = re.search(rb'"optimiser_steps":(\d+)', content)
                return int(found[1]) if found else 0
        except (OSError, ValueError):  # an empty file cannot be mapped
            return 0

    def stamp(self):
        """Time of that state in ns."""
        try:
            return (self.directory / "checkpoints" / "state.h5").stat().st_mtime_ns
        except OSError:
            return 0

    def ended(self):
        """Whether it holds a state behind the last epoch."""
        return self.state == self.steps > 0

    def config_sha256(self):
        """Of config.toml; empty: there is none."""
        try:
            return hashlib.sha256((self.directory / "config.toml").read_bytes()).hexdigest()
        except OSError:
            return ""

    def settings(self):
        """config.toml, {"train.epochs": 4}: a key a line, as the program writes it."""
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
        """[(key, what it was trained with, what is asked)] of settings {key: text}."""
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
                continue  # it has more than that
            found.append((key, before, value))
        return found
