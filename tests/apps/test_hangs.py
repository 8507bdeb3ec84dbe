"""Ranks that hang, are killed or run out of memory: the job ends in time with one line and no process
stays."""

import ctypes
import os
import re
import signal
import subprocess
import time
import unittest

import support

CONFIG = """
[data]
file = "p.nc"
[split]
train = 40
[relation]
graph = "grid8"
[model]
latent = 2
[train]
epochs = 1000000000
[parallel]
threads = 1
[log]
seconds = 0
"""


class Hangs(support.LiveTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.isdir("/proc/self"):
            raise unittest.SkipTest("there is no /proc here to find ranks in")
        made = cls.run_ranks(1, "data", "synth", "--lat", "6", "--lon", "8", "--steps", "60", "-o", "p.nc")
        assert made.code == 0, made.err
        cls.write("p.toml", CONFIG)

    def train(self, ranks, run, limit, *more):
        """Returns a training that has started, and the process ids of its ranks in order."""
        process = self.launch([support.mpiexec, "-n", str(ranks), support.rossby, "train", "p.toml", "--run", run, "--set",
                               f"parallel.watchdog_seconds={limit}", *more])
        self.wait_for_line(process, run)
        pids = self.ranks(process)
        self.assertEqual(len(pids), ranks)
        return process, pids

    def wait_for_line(self, process, run, size=0):
        """Waits until the metrics are longer than `size` bytes."""
        metrics = self.path(run + "/metrics.jsonl")
        begin = time.monotonic()
        while not os.path.exists(metrics) or os.path.getsize(metrics) <= size:
            if process.poll() is not None:
                self.fail("it ended: " + process.stderr.read())
            self.assertLess(time.monotonic() - begin, 120)
            time.sleep(0.02)

    def ended(self, process, pids, within):
        """Returns (exit code, seconds, stderr without mpiexec's lines) of a job. Checks that it ends by
        itself and leaves no process."""
        begin = time.monotonic()
        try:
            _, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.fail(f"it still runs after {within} s")
        seconds = time.monotonic() - begin
        while left := [f"{pid}: {self.state(pid)}" for pid in pids if self.state(pid) != "Z"]:
            self.assertLess(time.monotonic() - begin, within, f"ranks are left: {left}")
            time.sleep(0.05)
        return process.returncode, seconds, support.Result(process.returncode, "", err, [], seconds).lines

    def test_stopped_rank(self):
        for victim in [1, 0]:
            with self.subTest(victim=victim):
                process, pids = self.train(3, f"stopped{victim}", 2)
                os.kill(pids[victim], signal.SIGSTOP)
                code, seconds, lines = self.ended(process, pids, 60)
                self.assertEqual(code, 76, lines)
                self.assertGreater(seconds, 1.5)
                self.assertLess(seconds, 2 + self.time_limit(3))
                self.assertEqual(len(lines), 1, lines)
                speaker = 0 if victim else 1
                self.assertRegex(lines[0], rf"^rossby: rank {speaker} on \S+ has waited for [2-9] s in .+ "
                                           rf"\(training step \d+.*\); rank {victim} on \S+ gives no sign of life; the job ends "
                                           r"\(parallel.watchdog_seconds = 2\)\. If a step may take that long, raise parallel.watchdog_seconds$")
        result = self.run_ranks(3, "train", "p.toml", "--run", "stopped1", "--stop-after", "0.000001s")
        self.assertEqual(result.codes, [75] * 3, result.err)
        self.assertNotIn(".watchdog", os.listdir(self.path("stopped1")))

    def test_killed_rank(self):
        process, pids = self.train(3, "killed", 300)
        os.kill(pids[1], signal.SIGKILL)
        code, seconds, lines = self.ended(process, pids, 60)
        self.assertNotEqual(code, 0)
        self.assertLess(seconds, self.time_limit(3), lines)

    def test_main_thread_that_hangs(self):
        """The rank's watchdog still runs, and reports to the other ranks what its main thread is doing."""
        process, pids = self.train(2, "thread", 2)
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize, interrupt, detach = 0x4206, 0x4207, 17
        if ptrace(seize, pids[1], None, None) != 0 or ptrace(interrupt, pids[1], None, None) != 0:
            self.skipTest("threads cannot be stopped here: ptrace: " + os.strerror(ctypes.get_errno()))
        os.waitpid(pids[1], 0x40000000)  # __WALL
        code, _, lines = self.ended(process, [], 60)
        ptrace(detach, pids[1], None, None)
        self.assertEqual(code, 76, lines)
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"^rossby: rank 0 on \S+ has waited for [2-9] s in .*\(training step \d+.*\); "
                                   r"(rank 1 on \S+ (has worked for|was last seen in) .+|all ranks wait there); the job ends")

    def test_suspended_job_and_short_pauses(self):
        process, pids = self.train(2, "suspended", 2)
        for stopped, seconds in [(pids, 5), (pids[1:], 1)]:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            self.wait_for_line(process, "suspended", os.path.getsize(self.path("suspended/metrics.jsonl")))
        os.kill(pids[0], signal.SIGTERM)
        code, _, lines = self.ended(process, pids, 60)
        self.assertEqual((code, lines), (75, []))

    def test_watch_that_is_off(self):
        process, pids = self.train(2, "off", 0)
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(3)
        self.assertIsNone(process.poll())
        os.kill(pids[1], signal.SIGCONT)
        os.kill(pids[1], signal.SIGTERM)
        code, _, lines = self.ended(process, pids, 60)
        self.assertEqual((code, lines), (75, []))

    def test_out_of_memory_on_one_rank(self):
        process, pids = self.train(2, "memory", 300)
        with open(f"/proc/{pids[1]}/status", encoding="utf-8") as file:
            peak = int(re.search(r"VmPeak:\s*(\d+) kB", file.read()).group(1))
        os.kill(pids[1], signal.SIGTERM)
        self.ended(process, pids, 60)
        if peak > 1 << 26:
            self.skipTest("sanitizers take all addresses there are")
        # The same with more latents than that rank has memory for: 40 x 800 x 4096 x 4 bytes = 500 MiB per array. OpenBLAS
        # must have its buffers (129 MiB per thread), or the run is refused for these.
        self.succeed(1, "data", "synth", "--lat", "20", "--lon", "80", "--steps", "60", "-o", "wide.nc")
        command = [support.mpiexec, "-n", "1", support.rossby]
        arguments = ["train", "p.toml", "--run", "little"]
        for setting in ["data.file=wide.nc", "data.nodes=all", "train.epochs=1", "model.latent=4096"]:
            arguments += ["--set", setting]
        limited = ["sh", "-c", f'ulimit -v {peak + 300000}; exec "$@"', "sh", support.rossby]
        process = self.launch([*command, *arguments, ":", "-n", "1", *limited, *arguments])
        code, seconds, lines = self.ended(process, [], 60)
        self.assertEqual(code, 1, lines)
        self.assertLess(seconds, self.time_limit(2))
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], "^rossby: rank 1: out of memory.*. Use more ranks")


if __name__ == "__main__":
    support.main()
