"""Calls of the program on ranks that share this machine."""

import json
import os
import statistics
import subprocess
import sys

# A training that validates and saves nothing.
CONFIG = """
[data]
file = "p.nc"
[split]
train = {steps}
validation = 20
[relation]
graph = "grid8"
[model]
layers = 1
[optimiser]
lr = 0.0001
[train]
keep = "last"
[schedule]
metric = "train"
[validation]
every = 1000000
[checkpoint]
keep = 0
[parallel]
threads = 1
device = "cpu"
"""


def call(rossby, folder, ranks, *words, sleeps=""):
    """What it prints. `sleeps`: what time groups sleep before a step or sub-batch, as ROSSBY_SLOW_GROUPS has it."""
    command = [rossby, *map(str, words)]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OMPI_MCA_mpi_yield_when_idle="1", OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", ROSSBY_SLOW_GROUPS=sleeps)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def sleeping(seconds):
    """All groups sleep so long on average. Times that do not vary would keep groups in step, as no real job has them."""
    return f"*:{0.5 * seconds}-{1.5 * seconds}"


def sets(settings):
    return [word for one in settings for word in ("--set", one)]


def epochs(directory):
    """The lines of metrics.jsonl."""
    with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def merged(windows, sub_batch):
    counts = {}
    for w, times in windows.items():
        counts[round(w / sub_batch)] = counts.get(round(w / sub_batch), 0) + times
    return counts


def mean(counts):
    return sum(value * times for value, times in counts.items()) / sum(counts.values())


def shares(counts):
    total = sum(counts.values())
    return [counts.get(k, 0) / total for k in range(max(counts) + 1)]


def measured(directory, sub_batch):
    """What became of a run: means and shares of all epochs but the first."""
    lines = epochs(directory)[1:]
    windows, staleness = {}, {}
    for line in lines:
        for counts, key in ((windows, "windows"), (staleness, "staleness")):
            for value, times in line["updates"][key]["times"]:
                counts[value] = counts.get(value, 0) + times
    parts = ("worker_seconds", "update_seconds", "join_seconds", "sum_seconds")
    return {"epoch_seconds": statistics.median(line["epoch_seconds"] for line in lines), "mini_batch": mean(windows),
            "staleness": mean(staleness), "staleness_shares": shares(staleness), "mini_batch_shares": shares(merged(windows, sub_batch)),
            **{name: statistics.mean(line["updates"][name]["mean"] for line in lines) for name in parts}}


def synthetic(rossby, folder, steps, calibrate=True):
    """p.nc with 48 nodes, c.toml and machine.json: of one and two ranks, and messages of up to eight."""
    call(rossby, folder, 1, "data", "synth", "--lat", "6", "--lon", "8", "--steps", steps + 60, "-o", "p.nc")
    with open(os.path.join(folder, "c.toml"), "w", encoding="utf-8") as file:
        file.write(CONFIG.format(steps=steps))
    if calibrate:
        for ranks, only in ((1, ()), (2, ()), (8, ("--only", "messages"))):
            call(rossby, folder, ranks, "calibrate", "-o", "machine.json", "--quick", *only)
