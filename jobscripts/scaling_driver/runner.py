"""Programs that are started here: the launcher with its ranks, and what makes series."""

import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

from .common import EXIT_RESUME, NotFound, Problem, Stopped, say

PATIENCE = 3  # seconds until an unanswered signal is sent again


class Runner:
    """Starts commands and passes a signal to stop to the running one."""

    def __init__(self):
        self.child, self.stopped = None, False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            # nohup sets SIGHUP to ignored; keep it so.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.stop)
        signal.signal(signal.SIGALRM, lambda *_: self.pass_on(signal.SIGUSR1))

    def stop(self, *_):
        again, self.stopped = self.stopped, True
        if self.child is not None:
            # The launcher passes the signal to the ranks, which write a checkpoint. A second signal ends
            # without waiting.
            self.pass_on(signal.SIGTERM if again else signal.SIGUSR1)
        elif again:
            raise Stopped

    def pass_on(self, number):
        """Sends a signal until the ranks leave, because ranks that do not handle it yet ignore it."""
        if self.child is not None:
            self.child.send_signal(number)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def run(self, command, log):
        """Appends a command's output to a log. Returns its exit code and its last output."""
        if self.stopped:
            raise Stopped
        with open(log, "ab", buffering=0) as file:
            try:
                file.write(f"== {shlex.join(command)}\n".encode())
            except OSError as error:
                raise Problem(f"{log}: cannot be written: {error.strerror}. Choose another folder with --out") from None
            begin = file.tell()
            try:
                self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                              start_new_session=True)
            except OSError as error:
                raise Problem(f"{command[0]} cannot be started: {error.strerror}. Check --rossby and --launcher") from None
            if self.stopped:
                self.pass_on(signal.SIGUSR1)
            code = self.child.wait()
            self.child = None
        lines = pathlib.Path(log).read_bytes()[begin:].decode(errors="replace").splitlines()
        lines = [line for line in lines if line.startswith("rossby: ")] or [line for line in lines if re.search(r"\w", line)]
        return code, lines[-1] if lines else "no output"


def make_data(runner, options, study, run):
    if not run.synth or pathlib.Path(run.data).exists():
        return
    data = pathlib.Path(run.data)
    data.parent.mkdir(parents=True, exist_ok=True)
    sweep(data)
    words = [word for key, value in run.synth.items() for word in (f"--{key}", value)]
    code, last = runner.run([options.program, "data", "synth", *words, "-o", run.data], data.parent / "synth.log")
    if code != 0:
        sweep(data)
        if runner.stopped:
            raise Stopped
        raise Problem(f"{study.label}: {run.data}: the series could not be made: exit code {code}: {last}")


def sweep(data):
    """Removes the rest of a file that was not written completely."""
    for path in data.parent.iterdir():
        if path.name.startswith(data.name + ".") and path.suffix == ".part":
            path.unlink(missing_ok=True)


def launch(options, run):
    """Returns the words before the program that start a run's ranks."""
    launcher = options.launcher
    for name in ["ranks", "nodes", "threads"]:
        launcher = launcher.replace(f"{{{name}}}", str(getattr(run, name)))
    try:
        return shlex.split(launcher)
    except ValueError as error:
        raise Problem(f"--launcher {options.launcher}: {error}") from None


def find(program, how):
    if shutil.which(program):
        return
    if not program:
        raise NotFound(f"no program: {how}")
    path = pathlib.Path(program)
    what = ("not in PATH" if "/" not in program else "no such program" if not path.exists() else
            "not a file that can be executed")
    raise NotFound(f"{program}: {what}; {how}")


def find_programs(options, studies):
    """Rejects a study with missing programs, before any of its files is written."""
    runs = [run for study in studies for run in study.runs]
    # A job looks for the program on its own node, after it has loaded modules.
    if not options.submit or options.report or any(run.synth for run in runs):
        find(options.program, "name the program rossby with --rossby")
    if options.submit:
        find("sbatch", "--submit needs Slurm")
        return
    for word in dict.fromkeys(word for run in runs for word in launch(options, run)[:1]):
        find(word, "name the program that starts the ranks with --launcher")


def train(runner, options, study, run):
    """Trains a run here and returns its exit code."""
    begin = time.monotonic()
    study.remember(run)
    code, last = runner.run([*launch(options, run), options.program, "train", *run.arguments], run.log)
    if code == 0:
        study.settle(run)
        say(f"{study.label}/{run.name}: ended after {time.monotonic() - begin:.1f} s")
    elif code == EXIT_RESUME or runner.stopped:
        say(f"{study.label}/{run.name}: paused with exit code {code}. To continue this run, give the same command again")
        code = EXIT_RESUME
    else:
        say(f"{study.label}/{run.name}: failed with exit code {code}: {last} ({run.log})")
    return code
