"""A Slurm cluster of virtual nodes on the loopback device, in a temporary folder. Needs root, munge, slurmctld, slurmd."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "scancel"]

CONFIG = """\
ClusterName=rossby
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
MpiDefault=pmix
SwitchType=switch/none
ReturnToService=2
JobRequeue=1
KillWait=5
MinJobAge=600
InactiveLimit=0
SlurmdTimeout=30
SlurmctldTimeout=30
MailProg=/bin/true
PropagateResourceLimits=NONE
"""


def missing():
    """Why there can be no cluster here; None where there can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return ("Slurm is not installed: no " + ", ".join(absent) +
                " (Debian: slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins)")
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root here"
    return None


def free_ports(count):
    """The first of `count` ports in a row that nobody listens on."""
    for first in range(27800 + os.getpid() % 1000, 40000, 37):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports on 127.0.0.1")


def end_with_parent():
    """In a child before it starts: it is told to end when the test does, however that ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class Cluster:
    """Nodes n1, n2, … of two cores each."""

    def __init__(self, folder, nodes):
        self.folder = pathlib.Path(folder)
        self.nodes = nodes
        self.daemons = {}  # name: process
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        for variable in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_", "SLURM_"))]:
            self.environment.pop(variable, None)
        self.environment["SLURM_CONF"] = str(self.folder / "slurm.conf")

    def start(self):
        for name in ["state", "log", "run"]:
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        host = socket.gethostname().split(".")[0]
        port = free_ports(self.nodes + 1)
        text = CONFIG.format(host=host, port=port, folder=self.folder)
        for i in range(1, self.nodes + 1):
            # Nodes that shared a folder for temporary files would fight for PMIx's.
            (self.folder / "spool" / f"n{i}").mkdir(parents=True)
            (self.folder / "tmp" / f"n{i}").mkdir(parents=True)
            text += f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + i} CPUs=2 RealMemory=2000 State=UNKNOWN\n"
        text += f"PartitionName=main Nodes=n[1-{self.nodes}] Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP\n"
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        run, log = self.folder / "run", self.folder / "log"
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={run}/munge.sock",
                    f"--pid-file={run}/munged.pid", f"--log-file={log}/munged.log", f"--seed-file={run}/munge.seed")
        self.wait_for((run / "munge.sock").exists, 10, "munged")
        self.daemon("slurmctld", "-D", "-f", f"{self.folder}/slurm.conf", "-i")
        for i in range(1, self.nodes + 1):
            self.start_node(i)
        self.wait_for(lambda: self.idle() == self.nodes, 30, "all nodes to be idle")

    def start_node(self, i):
        self.daemon("slurmd", "-D", "-N", f"n{i}", "-f", f"{self.folder}/slurm.conf", name=f"n{i}")

    def daemon(self, *command, name=None):
        self.daemons[name or command[0]] = subprocess.Popen(  # pylint: disable=consider-using-with
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent)

    def idle(self):
        return self.call("sinfo", "-h", "-N", "-o", "%t", check=False).split().count("idle")

    def stop(self):
        self.call("scancel", "--full", "-u", "root", check=False)
        time.sleep(0.5)
        for name in sorted(self.daemons, reverse=True):  # slurmctld, nodes, munged
            self.daemons[name].terminate()
        for process in self.daemons.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.daemons = {}

    def lose_node(self, i):
        """The node's daemon dies, and the controller hears of it."""
        self.daemons[f"n{i}"].kill()
        self.daemons.pop(f"n{i}").wait()
        self.call("scontrol", "update", f"NodeName=n{i}", "State=DOWN", "Reason=lost")

    def find_node(self, i):
        self.start_node(i)
        self.call("scontrol", "update", f"NodeName=n{i}", "State=RESUME", check=False)
        self.wait_for(lambda: self.idle() == self.nodes, 30, f"node {i} to come back")

    def call(self, *command, check=True):
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        if check and result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {result.returncode}: {result.stdout}{result.stderr}")
        return result.stdout

    def submit(self, *arguments, cwd, **variables):
        """Job number of `sbatch arguments`."""
        given = {name: value for name, value in os.environ.items() if name.startswith("ROSSBY_")}
        environment = dict(self.environment, **given, **variables)
        result = subprocess.run(["sbatch", "--parsable", *arguments], env=environment, cwd=cwd, capture_output=True,
                                text=True, check=False, timeout=60)
        if result.returncode != 0:
            raise RuntimeError(f"sbatch {' '.join(arguments)}: {result.stderr}")
        return result.stdout.strip().split(";")[0]

    def job(self, number):
        """What Slurm knows of a job, as a dictionary."""
        text = self.call("scontrol", "show", "job", str(number))
        return dict(re.findall(r"(\w+)=(\S*)", text.split("\n\n")[0]))

    def log_end(self):
        """The last lines of the controller's log."""
        log = self.folder / "log" / "slurmctld.log"
        return log.read_text()[-2000:] if log.exists() else ""

    def wait_for(self, condition, limit, what):
        end = time.monotonic() + limit
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited {limit} s for {what}\n{self.log_end()}")
            time.sleep(0.2)

    def release(self, number):
        """Slurm lets a job wait two minutes after a requeue: its turn is now."""
        self.wait_for(lambda: self.job(number)["JobState"] != "COMPLETING", 60, f"the last start of job {number} to end")
        if self.job(number)["JobState"] == "PENDING":
            # A start in the second of the requeue is refused: its credential counts as revoked.
            time.sleep(2)
            self.call("scontrol", "update", f"JobId={number}", "StartTime=now", check=False)

    def finish(self, number, limit=240):
        """Waits for the end of a job; where it waits for its turn after a requeue, its turn is now."""
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}

        def done():
            job = self.job(number)
            if job["JobState"] == "PENDING" and int(job["Restarts"]) > 0:
                self.release(number)
            return job["JobState"] in ended
        self.wait_for(done, limit, f"job {number} to end")
        return self.job(number)
