"""Kills a random rank of a training with SIGKILL at a random moment, again and again, also while checkpoints
are written. Each later start must continue by itself, no checkpoint may ever be unreadable, and a finished
run must have the same bits as a run that was never killed.

torture.py ROSSBY MPIEXEC [KILLS [SEED]]      20 kills by default; ends with a summary and exit code 0 or 1
"""

import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
[data]
file = "p.nc"
center = "node"
spread = "global"
[split]
train = "0.6"
validation = "0.2"
[relation]
graph = "grid8"
mode = "refine"
discover = "low_rank"
rank = 3
[optimiser]
beta1 = 0.9
clip = 1.0
[model]
dropout_z = 0.1
[train]
epochs = 12
[checkpoint]
every_steps = 3
[evaluate]
horizons = 2
"""


class Torture:

    def __init__(self, rossby, mpiexec, seed):
        self.rossby, self.mpiexec = os.path.abspath(rossby), mpiexec
        self.random = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="rossby_torture_")
        self.counts = collections.Counter()
        self.verified = {}
        self.startup = self.duration = 0.0

    def one(self, *arguments):
        return subprocess.run([self.rossby, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              check=True).stdout

    def start(self, run, log):
        return subprocess.Popen(
            [self.mpiexec, "--mca", "odls_base_sigkill_timeout", "0", "-n", "2", self.rossby, "train", "p.toml", "--run",
             run], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True)

    def end(self, run):
        """Returns the result of a run: checksums of its state, and its metrics without times."""
        arrays = json.loads(self.one("checkpoint", "inspect", f"{run}/checkpoints/state.h5", "--json"))["arrays"]
        with open(os.path.join(self.folder, run, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return arrays, [{k: v for k, v in line.items() if not re.search("second|bytes|sent|place", k)} for line in lines]

    def reference(self):
        self.one("data", "synth", "--lat", "6", "--lon", "8", "--steps", "60", "-o", "p.nc")
        with open(os.path.join(self.folder, "p.toml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        begin = time.monotonic()
        with open(os.path.join(self.folder, "whole.txt"), "w+", encoding="utf-8") as log:
            process = self.start("whole", log)
            while not os.path.isdir(os.path.join(self.folder, "whole/checkpoints")) and process.poll() is None:
                time.sleep(0.005)
            self.startup = time.monotonic() - begin
            if process.wait(timeout=120) != 0:
                log.seek(0)
                sys.exit("the uninterrupted run fails:\n" + log.read())
        self.duration = time.monotonic() - begin - self.startup
        return self.end("whole")

    def checkpoints(self, run):
        folder = os.path.join(self.folder, run, "checkpoints")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def verify(self, run):
        """Verifies every checkpoint at least once."""
        for name in self.checkpoints(run):
            path = f"{run}/checkpoints/{name}"
            status = os.stat(os.path.join(self.folder, path))
            key = (status.st_ino, status.st_mtime_ns)
            if not name.endswith(".h5") or self.verified.get(path) == key:
                continue
            self.one("checkpoint", "verify", path)
            self.verified[path] = key
            self.counts["checkpoints verified"] += 1

    @staticmethod
    def ranks(process):
        """Returns the running ranks. A rank that has ended stays in the list until mpiexec collects it."""
        listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
        running = []
        for pid in listed:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    state = file.read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z":
                running.append(pid)
        return running

    def wait(self, process):
        """Returns mpiexec's exit code. Open MPI's sometimes does not notice that its ranks have ended."""
        begin = seen = time.monotonic()
        while process.poll() is None and time.monotonic() - begin < 60 and time.monotonic() - seen < 3:
            time.sleep(0.05)
            if self.ranks(process):
                seen = time.monotonic()
        if process.returncode is not None:
            return process.returncode
        left = self.ranks(process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if left:
            raise AssertionError(f"{len(left)} ranks still run a minute after one was killed")
        self.counts["times that mpiexec outlived its ranks"] += 1
        return -signal.SIGKILL

    def kill_one(self, run):
        """Starts a run and kills one of its ranks. True if the run ended before."""
        with open(os.path.join(self.folder, run + ".txt"), "a+", encoding="utf-8") as log:
            at = log.seek(0, os.SEEK_END)
            process = self.start(run, log)
            time.sleep(self.random.uniform(0.3 * self.startup, self.startup + 0.6 * self.duration))
            ranks = self.ranks(process)
            victim = int(self.random.choice(ranks)) if ranks else 0
            if victim:
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    victim = 0
            code = self.wait(process)
            log.seek(at)
            text = log.read()
        if "resumed   " in text:
            self.counts["starts that went on from a checkpoint"] += 1
        if code == 0:
            return True
        if not victim or re.search(r"(?m)^rossby: (?!warning)", text) or code == 1:
            raise AssertionError(f"a start failed by itself (exit code {code}):\n{text}")
        if "is skipped" in text:
            raise AssertionError("a checkpoint was unreadable:\n" + text)
        self.counts["kills"] += 1
        if any(name.endswith(".tmp") for name in self.checkpoints(run)):
            self.counts["kills while a checkpoint was written"] += 1
        if not self.checkpoints(run):
            self.counts["kills before the first checkpoint"] += 1
        self.verify(run)
        return False

    def finish(self, run, whole):
        if self.end(run) != whole:
            raise AssertionError(f"{run} ends with another state than the uninterrupted run")
        self.counts["runs that ended with the bits of the uninterrupted one"] += 1
        shutil.rmtree(os.path.join(self.folder, run))

    def run(self, kills):
        begin = time.monotonic()
        whole = self.reference()
        number = 0
        while self.counts["kills"] < kills:
            if self.kill_one(f"run{number}"):
                self.finish(f"run{number}", whole)
                number += 1
            elif self.counts["kills"] % 20 == 0:
                print(f"{time.monotonic() - begin:.0f} s: {dict(self.counts)}", flush=True)
        if os.path.isdir(os.path.join(self.folder, f"run{number}")):
            with open(os.path.join(self.folder, "last.txt"), "w", encoding="utf-8") as log:
                if self.start(f"run{number}", log).wait(timeout=120) != 0:
                    raise AssertionError("the last start fails")
            self.finish(f"run{number}", whole)
        print(f"{time.monotonic() - begin:.0f} s")
        for what, count in self.counts.items():
            print(f"{count:6d} {what}")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6)
    print(f"seed {seed}, {kills} kills", flush=True)
    torture = Torture(sys.argv[1], sys.argv[2], seed)
    try:
        torture.run(kills)
    except AssertionError as error:
        sys.exit(f"{error}\nleft in {torture.folder}")
    shutil.rmtree(torture.folder)


if __name__ == "__main__":
    main()
