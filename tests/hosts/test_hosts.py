"""Trainings over several hosts, which are network namespaces: test_hosts.py ROSSBY MPIEXEC. Exit code 77 where there can be none."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "apps"), str(ROOT / "tests" / "hosts")]

import namespaces  # noqa: E402  pylint: disable=wrong-import-position
import support  # noqa: E402  pylint: disable=wrong-import-position

CONFIG = """
[data]
file = "p.nc"
[split]
train = 40
[relation]
graph = "grid8"
mode = "refine"
discover = "low_rank"
rank = 2
[model]
precision = "double"
latent = 2
[train]
epochs = {epochs}
keep = "last"
[optimiser]
lr = 1e-5
[checkpoint]
every_steps = 20
[parallel]
threads = 1
partition = "graph"
watchdog_seconds = 5
[log]
seconds = 0
"""


class Hosts(unittest.TestCase):
    """Four hosts for each test, one rank on each of them."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        reason = namespaces.missing()
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rossby_hosts_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.local(1, "data", "synth", "--lat", "10", "--lon", "20", "--steps", "60", "-o", "p.nc")
        (cls.folder / "short.toml").write_text(CONFIG.format(epochs=6))
        (cls.folder / "long.toml").write_text(CONFIG.format(epochs=200))  # long enough to be met on its way
        cls.whole = {}

    def setUp(self):
        self.hosts = namespaces.Hosts(self.folder, 4)
        self.addCleanup(self.hosts.stop)
        self.hosts.start()

    @classmethod
    def local(cls, ranks, *arguments):
        """The program on this host alone."""
        result = subprocess.run([support.mpiexec, "-n", str(ranks), support.rossby, *arguments], cwd=cls.folder,
                                capture_output=True, text=True, check=False, timeout=120)
        if result.returncode != 0:
            raise AssertionError(f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def on_one_host(self, config):
        """What a run of four ranks ends with that nothing interrupts."""
        if config not in self.whole:
            self.local(4, "train", config, "--run", f"whole_{config}")
            self.whole[config] = self.ends(f"whole_{config}")
        return self.whole[config]

    def ends(self, run):
        """The final arrays' checksums, and what each epoch's line says but for times and memory."""
        text = self.local(1, "checkpoint", "inspect", f"{run}/checkpoints/state.h5", "--json")
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return (json.loads(text)["arrays"],
                [{k: v for k, v in line.items() if not re.search("second|bytes|sent|place", k)} for line in lines])

    def start(self, hosts, *arguments):
        process = subprocess.Popen(self.hosts.mpirun(support.mpiexec, hosts, support.rossby, *arguments), cwd=self.folder,
                                   env=self.hosts.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.clear, process)
        return process

    @staticmethod
    def clear(process):
        support.kill_group(process)
        process.stdout.close()
        process.stderr.close()

    def run_on(self, hosts, *arguments, code=0):
        process = self.start(hosts, *arguments)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, out + err)
        return out

    def under_way(self, process, run, epochs=3):
        metrics = self.folder / run / "metrics.jsonl"
        begin = time.monotonic()
        while not metrics.exists() or len(metrics.read_text().splitlines()) < epochs:
            if process.poll() is not None or time.monotonic() - begin > 60:
                ranks = [self.hosts.pids(i) for i in range(1, 5)]
                support.kill_group(process)
                self.fail(f"{ranks}, exit code {process.returncode}\n{process.stdout.read()}\n{process.stderr.read()}")
            time.sleep(0.02)

    def test_same_result_as_on_one_host(self):
        out = self.run_on([1, 2, 3, 4], "train", "short.toml", "--run", "spread")
        self.assertIn("ranks     4 x 1 threads", out)
        self.assertEqual(self.ends("spread"), self.on_one_host("short.toml"))

    def test_resumed_on_hosts(self):
        self.run_on([1, 2, 3, 4], "train", "short.toml", "--run", "resumed", "--stop-after", "0.000001s", code=75)
        out = self.run_on([4, 2, 1, 3], "train", "short.toml", "--run", "resumed")
        self.assertIn("resumed ", out)
        self.assertEqual(self.ends("resumed"), self.on_one_host("short.toml"))

    def goes_on_with_three(self, run):
        """The run ends on three hosts as it would have on four, up to the order of sums."""
        newest = max(p.name for p in (self.folder / run / "checkpoints").glob("step-*.h5"))
        self.local(1, "checkpoint", "verify", f"{run}/checkpoints/{newest}")
        out = self.run_on([1, 2, 4], "train", "long.toml", "--run", run)
        self.assertIn("resumed ", out)
        lines, whole = self.ends(run)[1], self.on_one_host("long.toml")[1]
        self.assertEqual(len(lines), len(whole))
        for line, other in zip(lines, whole):
            self.assertAlmostEqual(line["loss"] / other["loss"], 1, delta=1e-6)

    def no_ranks_left(self):
        begin = time.monotonic()
        while left := [i for i in range(1, 5) if self.hosts.pids(i, pathlib.Path(support.rossby).name)]:
            self.assertLess(time.monotonic() - begin, 40, f"ranks are left on hosts {left}")
            time.sleep(0.1)

    def test_host_without_power(self):
        process = self.start([1, 2, 3, 4], "train", "long.toml", "--run", "power")
        self.under_way(process, "power")
        self.hosts.lose(3)
        out, err = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0, out + err)
        self.no_ranks_left()
        self.goes_on_with_three("power")

    def test_host_without_network(self):
        """Ranks end on both sides; mpirun itself may wait for the lost host as long as its own settings say."""
        process = self.start([1, 2, 3, 4], "train", "long.toml", "--run", "network", "--set", "train.epochs=1000000000",
                             "--set", "parallel.watchdog_seconds=2", "--set", "checkpoint.every_steps=0")
        self.under_way(process, "network")
        self.hosts.unplug(3)
        self.no_ranks_left()
        support.kill_group(process)
        _, err = process.communicate()
        self.assertRegex(err, r"(?m)^rossby: rank 0 on rossby\S+-1 has waited for [2-9] s in .* the job ends")
        self.assertEqual(len(re.findall(r"(?m)^rossby: ", err)), 1, err)


if __name__ == "__main__":
    support.main()
