"""The study file and its options, and what cannot be meant by them."""

import json
import pathlib
import re
import sys

from .common import Problem

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

SYNTH = ["kind", "lat", "lon", "steps", "seed", "noise"]
DEFAULTS = {"label": "", "kind": "strong", "config": "", "ranks": [], "time_groups": [1], "stages": [1], "threads": 1, "seeds": [1],
            "repeats": 1, "ranks_per_node": 0, "machine": "", "set": {}, "sizes": {}, "scaled": {}, "synth": {}}


def literal(value):
    """Returns a value of a study file in the form of --set."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def flat(table, where, prefix=""):
    """Returns {"train.epochs": "2"} for {"train": {"epochs": 2}} and {"train.epochs": 2}."""
    if not isinstance(table, dict):
        raise Problem(f"{where} is {table!r}, but must be a table of configuration keys")
    found = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found.update(flat(value, where, f"{prefix}{key}."))
        else:
            found[prefix + key] = literal(value)
    return found


def read_study(path):
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from None
    if path.suffix not in (".toml", ".json"):
        raise Problem(f"{path}: the name of a study file must end with .toml or .json")
    if path.suffix == ".toml" and tomllib is None:
        raise Problem(f"{path}: Python {sys.version.split()[0]} cannot read TOML (3.11 can). Write the study as JSON")
    try:
        study = (tomllib if path.suffix == ".toml" else json).loads(text)
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None
    if not isinstance(study, dict):
        raise Problem(f"{path}: a study must be a table of keys. Known keys are {', '.join(DEFAULTS)}")
    for key in study:
        if key not in DEFAULTS:
            raise Problem(f"{path}: unknown key {key}. Known keys are {', '.join(DEFAULTS)}")
    study.setdefault("label", path.stem)
    return study


def check_numbers(study, key, several, least=1):
    values = study[key] if several else [study[key]]
    if not isinstance(values, list) or not values or not all(type(v) is int and v >= least for v in values):
        raise Problem(f"{key} is {study[key]!r}, but must be {'a list of numbers' if several else 'a number'} of at least 1")


def check(study):
    """Rejects invalid settings. Returns the study with flat tables."""
    for key in ["ranks", "time_groups", "stages", "seeds"]:
        check_numbers(study, key, True)
        study[key] = list(dict.fromkeys(study[key]))
    for key in ["threads", "repeats"]:
        check_numbers(study, key, False)
    check_numbers(study, "ranks_per_node", False, least=0)
    for key in ["label", "config", "machine"]:
        if not isinstance(study[key], str):
            raise Problem(f"{key} is {study[key]!r}, but must be text")
    if study["kind"] not in ("strong", "weak"):
        raise Problem(f"kind is {study['kind']!r}, but must be strong or weak")
    if not study["config"]:
        raise Problem("the configuration is missing. Set the key config of the study, or give --config")
    study["label"] = study["label"] or pathlib.Path(study["config"]).stem
    if not re.fullmatch(r"[\w.-]+", study["label"]) or study["label"].startswith("."):
        raise Problem(f"label is {study['label']!r}, but must consist of letters, digits, '-', '_' and '.'")
    for file in [study["config"], study["machine"]]:
        if file and not pathlib.Path(file).is_file():
            raise Problem(f"{file}: no such file. Correct config or machine of the study")
    for key in ["set", "scaled"]:
        study[key] = flat(study[key], key)
    if not isinstance(study["sizes"], dict) or not isinstance(study["synth"], dict):
        raise Problem("sizes and synth must be tables. Write [sizes.NAME] and [synth]")
    study["sizes"] = {name: flat(table, f"sizes.{name}") for name, table in study["sizes"].items()} or {"": {}}
    for name in study["sizes"]:
        if not re.fullmatch(r"[\w.-]*", name):
            raise Problem(f"sizes.{name}: the name must consist of letters, digits, '-', '_' and '.'")
    for key, own in {"train.seed": "seeds", "parallel.time_groups": "time_groups", "parallel.stages": "stages",
                     "parallel.threads": "threads"}.items():
        if any(key in table for table in [study["set"], study["scaled"], *study["sizes"].values()]):
            raise Problem(f"{key} is set by the study. Use the key {own} of the study, or --{own.replace('_', '-')}")
    study["synth"] = {key: literal(value) for key, value in study["synth"].items()}
    for key in study["synth"]:
        if key not in SYNTH:
            raise Problem(f"synth: unknown key {key}. Known keys are {', '.join(SYNTH)}")
    grows = [*study["scaled"].values(), *study["synth"].values()]
    if study["kind"] == "weak" and not any("ranks}" in value for value in grows):
        raise Problem("a weak study needs something that grows with the ranks. Write {ranks} in a value of [scaled] or [synth]")
    if study["kind"] == "strong" and (study["scaled"] or any("{" in value for value in grows)):
        raise Problem("a strong study trains the same on all numbers of ranks. Remove [scaled] and {ranks}, or set kind = \"weak\"")
    return study
