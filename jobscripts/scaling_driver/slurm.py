"""Runs as jobs of Slurm."""

import math
import os
import re
import shlex
import subprocess
import time

from .common import ROOT, Problem, Stopped, say

# Normal reasons for a job to wait; other reasons are reported.
ORDINARY = ["None", "Resources", "Priority", "BeginTime", "Dependency", "JobArrayTaskLimit", "Prolog", "Cleaning", "InvalidState"]
AT_WORK = ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "SIGNALING",
           "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED"]
TRIES, PAUSE = 3, 5  # for questions that Slurm does not answer; seconds between them


class Silent(Problem):
    """Slurm does not answer, so that the state of a job is unknown."""


class Refused(Problem):
    """sbatch rejects a job."""


def call(*command):
    """Protects Slurm commands from Ctrl-C, which is for the driver: a started command runs to its end."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, start_new_session=True)


def ask(number, *command):
    """Returns Slurm's answer about a job; nothing if Slurm does not know it."""
    try:
        found = call(*command)
    except FileNotFoundError:
        return ""  # no Slurm here: the study was made elsewhere
    if found.returncode == 0:
        return found.stdout
    if re.search("invalid job id", found.stderr, re.IGNORECASE):
        return ""
    lines = found.stderr.strip().splitlines() or [f"exit code {found.returncode}"]
    raise Silent(f"{command[0]} does not report job {number}: {lines[-1]}")


def job_of(study, run, tries=1, ask_slurm=True):
    """Returns the job that waits or trains for a run, with its state; None if there is none."""
    number = study.known.get(run.name, {}).get("job")
    if not number:
        return None
    if not ask_slurm:  # Slurm takes long to fail, each time
        raise Silent(f"squeue does not report job {number} either")
    while True:
        try:
            words = ask(number, "squeue", "-h", "-j", number, "-o", "%T %r").split(None, 1)
            break
        except Silent:
            tries -= 1
            if tries <= 0:
                raise
            time.sleep(PAUSE)
    if not words:
        return None
    reason = words[1].strip() if words[0] == "PENDING" and len(words) > 1 else "None"
    return f"job {number}, {words[0]}" + (f" ({reason})" if reason not in ORDINARY else "")


def told(number):
    """Returns {JobState, ExitCode} of a job; nothing once Slurm has forgotten it."""
    return dict(re.findall(r"\b(JobState|ExitCode)=(\S+)", ask(number, "scontrol", "show", "job", number)))


def completed(study, run):
    """True if the last job of a run has ended well, as far as Slurm remembers."""
    number = study.known.get(run.name, {}).get("job")
    return bool(number) and told(number).get("JobState") == "COMPLETED"


def submit(options, study, run):
    """Submits a run as a job."""
    script = ROOT / "jobscripts" / "slurm" / f"scaling_{study.kind}.sbatch"
    # Slurm expands %j and similar.
    output = str(run.log).replace("%", "%%")
    command = ["sbatch", "--parsable", f"--job-name={study.label}", f"--nodes={run.nodes}", f"--ntasks={run.ranks}",
               f"--ntasks-per-node={math.ceil(run.ranks / run.nodes)}", f"--cpus-per-task={run.threads}",
               f"--output={output}", *shlex.split(" ".join(options.sbatch)), str(script), *run.arguments]
    environment = dict(os.environ, ROSSBY_ROOT=str(ROOT), **({"ROSSBY_PROGRAM": options.rossby} if options.rossby else {}))
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True, env=environment)
    except OSError as error:
        raise Problem(f"{command[0]} cannot be started: {error.strerror}. Start this command on a host with Slurm") from None
    if result.returncode != 0:
        why = result.stderr.strip() or f"exit code {result.returncode}"
        raise Refused(f"{study.label}/{run.name}: sbatch refuses this job: {why}")
    number = result.stdout.strip().split(";")[0]
    say(f"{study.label}/{run.name}: job {number}, {run.nodes} nodes, {run.ranks} ranks")
    study.remember(run, number)


class Waiting:
    """Jobs [(study, run)] to wait for."""

    def __init__(self, pairs):
        self.pairs, self.failed, self.silent = list(pairs), 0, False
        self.said = {}

    def until_all_ended(self, runner):
        while self.pairs:
            if runner.stopped:
                raise Stopped
            try:
                for pair in list(self.pairs):
                    if self.over(*pair):
                        self.pairs.remove(pair)
                self.silent = False
            except Silent as silence:
                if not self.silent:
                    say(f"{silence}; still waiting")
                self.silent = True
            if self.pairs:
                time.sleep(1)

    def over(self, study, run):
        """True if a job has ended; reports how."""
        job = job_of(study, run)
        number = study.known[run.name]["job"]
        if job:
            if "(" in job and self.said.get(number) != job:
                say(f"{study.label}/{run.name}: {job}")
            self.said[number] = job
            return False
        # Slurm forgets jobs after a while. The files of the run decide then.
        how = told(number)
        if how.get("JobState") in AT_WORK:
            return False
        if how.get("JobState") == "COMPLETED":
            study.settle(run)
        if how.get("JobState") == "COMPLETED" or study.state(run) == "ended":
            say(f"{study.label}/{run.name}: ended")
            return True
        say(f"{study.label}/{run.name}: failed: job {number}, {how.get('JobState', 'unknown')}, exit code "
            f"{how.get('ExitCode', 'unknown').split(':')[0]} ({run.log})")
        self.failed += 1
        return True
