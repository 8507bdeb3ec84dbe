"""Hosts that are network namespaces of this machine, on one bridge. Needs root and iproute2."""

import os
import pathlib
import shutil
import signal
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["ip", "unshare", "mount", "hostname"]


def ip(*arguments, check=True):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=30)
    if check and result.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result


def missing():
    """Why there can be no such hosts here; None where there can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return "no " + ", ".join(absent) + " (Debian: iproute2)"
    if os.geteuid() != 0:
        return "network namespaces are made as root here"
    name = f"rossby-try-{os.getpid()}"
    made = ip("netns", "add", name, check=False)
    if made.returncode != 0:
        return "network namespaces cannot be made here: " + made.stderr.strip()
    try:
        veth = ip("-n", name, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", check=False)
        inside = subprocess.run(["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "--mount", "sh", "-c",
                                 "mount -t tmpfs tmpfs /dev/shm"], capture_output=True, text=True, check=False)
        return ((veth.stderr + inside.stderr).strip() or "no veth, no mount") if veth.returncode + inside.returncode else None
    finally:
        ip("netns", "del", name, check=False)


class Hosts:
    """Hosts number 1 to count; names are this process's own."""

    def __init__(self, folder, count):
        self.names = [f"rossby{os.getpid()}-{i}" for i in range(1, count + 1)]
        self.bridge = f"rossby{os.getpid()}-br"
        self.table = pathlib.Path(folder) / "hosts"

    def start(self):
        ip("netns", "add", self.bridge)
        ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", self.bridge, "link", "set", "br0", "up")
        table = "127.0.0.1 localhost\n"
        for i, name in enumerate(self.names, 1):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", self.bridge, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self.bridge, "link", "set", f"port{i}", "master", "br0")
            ip("-n", self.bridge, "link", "set", f"port{i}", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            table += f"10.77.0.{i} {name}\n"
        self.table.write_text(table)

    def pids(self, i, program=None):
        """Processes of host i, all of them or those of one program."""
        found = [int(pid) for pid in ip("netns", "pids", self.names[i - 1], check=False).stdout.split()]
        return [pid for pid in found if program in (None, self.program(pid))]

    @staticmethod
    def program(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def lose(self, i):
        """Host i loses its power."""
        while pids := self.pids(i):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def unplug(self, i):
        """Host i loses its network: its processes go on, nobody hears of it."""
        ip("-n", self.bridge, "link", "set", f"port{i}", "down")

    def stop(self):
        for i in range(1, len(self.names) + 1):
            self.lose(i)
        for name in [*self.names, self.bridge]:
            ip("netns", "del", name, check=False)

    def mpirun(self, mpiexec, hosts, *command):
        """A command line that starts one rank on each of these hosts, from the first of them."""
        return [str(HERE / "on_host.sh"), self.names[hosts[0] - 1], mpiexec, "-n", str(len(hosts)), "--host",
                ",".join(f"{self.names[i - 1]}:1" for i in hosts), "--mca", "plm_rsh_agent", str(HERE / "agent.sh"),
                "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", "eth0", "--mca",
                "btl_tcp_if_include", "eth0", *command]

    def environment(self):
        return dict(os.environ, ROSSBY_TEST_HOSTS=str(self.table))
