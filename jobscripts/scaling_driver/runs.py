"""The runs of a study, and what is known of them."""

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import pathlib
import re

from . import settings
from .common import Problem, scaled
from .trained import LIMITS, Trained, same_file


class Run:
    """One training."""

    def __init__(self, study, size, ranks, groups, stages, seed, repeat):
        self.ranks = ranks
        self.threads = study["threads"]
        self.nodes = math.ceil(ranks / study["ranks_per_node"]) if study["ranks_per_node"] else 1
        self.name = (f"ranks-{ranks}_groups-{groups}" + (f"_stages-{stages}" if stages > 1 else "") + f"_seed-{seed}" +
                     (f"_repeat-{repeat}" if study["repeats"] > 1 else ""))
        self.synth = {key: scaled(value, ranks) for key, value in study["synth"].items()}
        self.sets = {**study["set"], **study["sizes"][size]}
        self.sets.update((key, scaled(value, ranks)) for key, value in study["scaled"].items())
        if self.synth:
            name = "_".join(f"{key}-{re.sub(r'[^.0-9A-Za-z]', '-', value)}" for key, value in self.synth.items())
            self.sets["data.file"] = str((study["folder"] / "data" / f"{name}.nc").absolute())
        self.data = self.sets.get("data.file")
        self.sets.update({"train.seed": str(seed), "parallel.time_groups": str(groups), "parallel.threads": str(self.threads)})
        if stages > 1:
            self.sets["parallel.stages"] = str(stages)
        self.config, self.machine = study["config"], study["machine"]
        self.directory = study["folder"] / self.name
        self.log = study["folder"] / f"{self.name}.log"

    @property
    def arguments(self):
        """Returns the arguments of `rossby train`."""
        found = [self.config, "--run", str(self.directory)]
        for key, value in self.sets.items():
            found += ["--set", f"{key}={value}"]
        return found + (["--machine", self.machine] if self.machine else [])

    def meant(self, arguments):
        """Returns the meaning of arguments of `rossby train`, wherever the study lies: ({key: value}, machine)."""
        pairs = [word.partition("=")[::2] for before, word in zip(arguments, arguments[1:]) if before == "--set"]
        sets = {key: os.path.basename(value) if self.synth and key == "data.file" else value for key, value in pairs}
        machine = [word for before, word in zip(arguments, arguments[1:]) if before == "--machine"]
        return sets, os.path.realpath(machine[-1]) if machine else ""


class Study:
    """The runs of one folder, and the facts about them in study.json."""

    def __init__(self, study, size, out):
        study = dict(study, label=study["label"] + (f"-{size}" if size else ""))
        study["folder"] = self.folder = out / study["label"]
        self.label, self.kind = study["label"], study["kind"]
        self.scaled = sorted(set(study["scaled"]) | ({"data.file"} if self.kind == "weak" and study["synth"] else set()))
        self.config = pathlib.Path(study["config"])
        self.digest = hashlib.sha256(self.config.read_bytes()).hexdigest()
        # Alternate rank counts, so that a machine that gets busier slows all of them.
        self.runs = [Run(study, size, ranks, groups, stages, seed, repeat)
                     for repeat in range(1, study["repeats"] + 1) for seed in study["seeds"]
                     for ranks in study["ranks"] for groups in study["time_groups"] for stages in study["stages"]
                     if ranks % (groups * stages) == 0]
        if not self.runs:
            raise Problem(f"there is no run: time groups times stages must divide the ranks, but none of {study['time_groups']} times one of "
                          f"{study['stages']} divides one of {study['ranks']}. Change one of these lists")
        self.known = self.read()
        self.mine = {}  # entries of this process
        self.locked = None
        if study["synth"]:
            self.spell_data()

    def spell_data(self):
        """Names series of [synth] as existing runs do, because a training resumes with the same data.file."""
        names = {}
        for directory in sorted(self.folder.glob("*/config.toml")):
            name = Trained(directory.parent).settings().get("data.file")
            if isinstance(name, str):
                names.setdefault(os.path.basename(name), []).append(name)
        for run in self.runs:
            same = [name for name in names.get(os.path.basename(run.data), [])
                    if same_file(name, run.data) or os.path.realpath(name) == os.path.realpath(run.data)]
            own = Trained(run.directory).settings().get("data.file")
            run.sets["data.file"] = own if own in same else same[0] if same else run.data

    def read(self):
        file = self.folder / "study.json"
        if not file.exists():
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["kind"] != self.kind:
                raise Problem(f"{file}: this file lists runs of a {content['kind']} study. Choose another --label or --out")
            for entry in content.get("runs", []):
                if missing := {"run", "arguments", "config_sha256", "job", "state_before", "ended"} - set(entry):
                    raise KeyError(*missing)
            return {entry["run"]: entry for entry in content.get("runs", [])}
        except (ValueError, KeyError, TypeError) as error:
            raise Problem(f"{file}: not a study of jobscripts/scaling: {error!r}. Remove this file, or choose another --label") from None

    def begin(self):
        """Reserves the study for this process until `leave`, because two processes would start its runs twice."""
        if self.locked is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.locked = lock(self.folder / ".scaling.lock", wait=False)
            if self.locked is None:
                raise Problem(f"{self.folder}: another jobscripts/scaling starts runs of this study. Wait for its end, or choose "
                              "another --label")
            self.known = self.read()  # includes changes by other processes

    def leave(self):
        if self.locked is not None:
            self.locked.close()
            self.locked = None

    def remember(self, run, job=None):
        """Records how a run is started, and the state before."""
        trained, known = Trained(run.directory), self.known.get(run.name)
        entry = {"run": run.name, "arguments": run.arguments, "config_sha256": self.digest, "job": job, "state_before": trained.state,
                 "ended": False}
        if trained.ended():
            # The run's entry if this start has no effect; None: nothing was recorded.
            unchanged = known and not known["ended"] and known["state_before"] == trained.state
            entry["earlier"] = known.get("earlier") if unchanged else known
            entry["config_before"] = known.get("config_before", "") if unchanged else trained.config_sha256()
        if entry.get("earlier"):
            entry["earlier"] = {key: value for key, value in entry["earlier"].items() if key != "earlier"}
        self.note(entry)

    def settle(self, run):
        """Records that a run has ended well, even if it had nothing left to do and keeps the state of an earlier start."""
        self.note(dict(self.known[run.name], ended=True))

    def note(self, entry):
        """Writes an entry to study.json and keeps entries that others have written since."""
        self.mine[entry["run"]] = entry
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"study.json.{os.getpid()}.part"
        with lock(self.folder / ".study.json.lock", wait=True):
            self.known = {**self.read(), **self.mine}
            content = {"format": 1, "kind": self.kind, "label": self.label, "scaled": self.scaled, "runs": list(self.known.values())}
            try:
                part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
                part.replace(self.folder / "study.json")
            except OSError as error:
                raise Problem(f"{self.folder / 'study.json'}: cannot be written: {error.strerror}. Choose another folder with --out") from None
            finally:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)

    def state(self, run):
        """Returns missing, cut off, ended, goes on (an ended run with more to do), or the settings that differ."""
        trained = Trained(run.directory)
        if not trained.begun:
            return "missing"
        if not trained.ended():
            return "cut off"
        known = self.known.get(run.name)
        if known is None:
            return self.compared(run, trained)
        # Earlier versions recorded the state's time in ns, not its steps.
        before = known["state_before"]
        if (before == trained.state or before == trained.stamp()) and not known["ended"]:
            # A training writes config.toml before its first step.
            if "earlier" not in known or known.get("config_before") != trained.config_sha256():
                return "cut off"
            known = known["earlier"]
            if known is None:
                return self.compared(run, trained)
        (sets, machine), (asked_sets, asked_machine) = run.meant(known["arguments"]), run.meant(run.arguments)
        same_config = known["config_sha256"] == self.digest
        if sets != asked_sets or not same_config:
            state = self.compared(run, trained)
            if state == "ended" and not same_config and settings.tomllib is None:
                state = "goes on"  # `rossby train` checks it
            if state != "ended":
                return state
        return "goes on" if asked_machine and asked_machine != machine else "ended"

    def compared(self, run, trained):
        """Returns the state of an ended run by the settings in its directory."""
        found = trained.differences({**self.of_config(), **run.sets})
        others = [f"{key} = {json.dumps(before, ensure_ascii=False)}, not {asked}" for key, before, asked in found
                  if key not in LIMITS and not (run.synth and key == "data.file") and not (key.endswith(".file") and moved(before))]
        if others:
            return f"was trained with {'; '.join(others)}. Choose another --label"
        return "goes on" if found else "ended"

    def of_config(self):
        """Returns settings of the configuration; none if this Python cannot read TOML."""
        if settings.tomllib is None:
            return {}
        try:
            return settings.flat(settings.tomllib.loads(self.config.read_text(encoding="utf-8")), self.config)
        except ValueError:
            return {}  # `rossby train` reports the error


def moved(before):
    """True if a file that a run was trained with is missing; `rossby train` recognises another one by its content."""
    return isinstance(before, str) and not os.path.exists(before)


def lock(path, wait):
    """Returns an open file that holds a lock until it is closed; None if another process has it."""
    file = open(path, "ab")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        # The file system has no locks: continue without one.
    return file
