"""Plans of asynchronous updates, compared with trainings."""

import json
import os
from unittest import mock

import support
from plan_runs import PlanRuns
from sensors import sensors
from test_windows import GRAPH_WAVENET


class AsynchronousPlan(PlanRuns):
    config = "windows.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(steps=60))
        cls.calibrate(2, "machine.json")

    def plan(self, *arguments, ranks=2):
        words = ["plan", "windows.toml", "--machine", "machine.json", "--updates", "asynchronous", "--set", "window.batch=4", *arguments]
        return self.succeed(ranks, *words).out

    def test_candidates(self):
        out = self.plan("--vary", "window.batch=4,8", "-o", "plan.json")
        self.assertEqual(out, "")
        candidates = self.load("plan.json", "candidates.schema.json")["candidates"]
        asynchronous = [c for c in candidates if "asynchronous" in c]
        self.assertEqual({c["time_groups"] for c in asynchronous}, {1, 2})
        fits = [c for c in asynchronous if not c["refused"]]
        self.assertEqual([c for c in candidates if c["fastest"]], [min(fits, key=lambda c: c["asynchronous"]["epoch_seconds"])])
        for one in asynchronous:
            a = one["asynchronous"]
            self.assertAlmostEqual(a["sub_batch"], one["batch"] / one["time_groups"])
            for shares in ("mini_batch_shares", "staleness_shares"):
                self.assertAlmostEqual(sum(a[shares]), 1, delta=1e-6)
            self.assertAlmostEqual(a["mini_batch"], a["sub_batch"] * sum(k * p for k, p in enumerate(a["mini_batch_shares"])), delta=1e-6)
            # A single group has an update for each sub-batch, if updates are shorter.
            self.assertGreaterEqual(a["mini_batch"], a["sub_batch"] - 1e-9)
            self.assertLessEqual(a["mini_batch"], 2 * one["batch"])
            self.assertGreater(a["worker_seconds"], 0)
            self.assertGreater(a["update_seconds"], 0)

    def test_groups_that_sleep(self):
        def planned():
            self.plan("-o", "sleep.json")
            both = next(c for c in self.load("sleep.json", "candidates.schema.json")["candidates"] if c["time_groups"] == 2)["asynchronous"]
            os.remove(self.path("sleep.json"))
            return both

        awake = planned()
        with mock.patch.dict(os.environ, {"ROSSBY_SLOW_GROUPS": "*:0.01-0.03,1:0.04"}):
            asleep = planned()
        # The mean of both groups; an update takes as long as before.
        self.assertAlmostEqual(asleep["worker_seconds"] - awake["worker_seconds"], 0.03, delta=2e-3)
        self.assertAlmostEqual(asleep["update_seconds"], awake["update_seconds"], delta=1e-9)
        self.assertLess(asleep["mini_batch"], awake["mini_batch"] + 1e-9)
        self.assertGreater(asleep["epoch_seconds"], awake["epoch_seconds"] + 0.04)

    def test_limits(self):
        out = self.plan("--target-batch", "100", "--tolerance", "0.1")
        self.assertRegex(out, "far from --target-batch 100\n")
        self.assertIn("no candidate fits", out)
        self.assertRegex(self.plan("--max-staleness", "0.01", "--candidates"), r"the mean staleness is [\d.]+, above --max-staleness 0.01\n")
        out = self.plan("--ranks", "1..16", "--target-batch", "4", "--tolerance", "3", ranks=1)
        self.assertRegex(out, r"\nfastest: \d+ ranks? --set .* --set train.updates=asynchronous\n$")
        self.assertRegex(out, r"\n. +16 +1 +16 ")
        # With faster cores and the same network, workers take less time, and updates about as long.
        self.assertIn("compute=2", self.plan("--what-if", "compute=2"))

    def test_runs_are_checked(self):
        for run, updates in (("asynchronous", "asynchronous"), ("synchronous", "synchronous")):
            out = self.succeed(2, "train", "windows.toml", "--run", run, "--machine", "machine.json",
                               *self.sets("window.batch=4", "parallel.time_groups=2", "train.epochs=4", "parallel.device=cpu",
                                          f"train.updates={updates}")).out
            if updates == "asynchronous":
                self.assertRegex(out, r"plan      [\d.]+ ms a sub-batch, [\d.]+ ms an update of [\d.]+ windows, staleness [\d.]+; ")
                self.assertRegex(out, r"plan      predicted .*\nplan      measured  .*\n")
        plan = self.load("asynchronous/plan.json", "plan.schema.json")
        measured = plan["asynchronous"]["measured"]
        updates = [json.loads(line)["updates"] for line in self.text("asynchronous/metrics.jsonl").splitlines()][1:]
        count = sum(u["count"] for u in updates)
        windows = sum(w * n for u in updates for w, n in u["windows"]["times"])
        taken = sum(n for u in updates for _, n in u["staleness"]["times"])
        self.assertAlmostEqual(measured["updates"], count / 3)
        self.assertAlmostEqual(measured["mini_batch"], windows / count, delta=1e-6)
        for u in updates:
            for name in ("join_seconds", "sum_seconds"):
                self.assertGreater(u[name]["mean"], 0)
            self.assertLess(u["join_seconds"]["mean"] + u["sum_seconds"]["mean"], u["update_seconds"]["mean"])
        self.assertAlmostEqual(measured["staleness"], sum(s * n for u in updates for s, n in u["staleness"]["times"]) / taken, delta=1e-6)
        out = self.succeed(1, "plan", "--check", "asynchronous", "synchronous").out
        self.assertRegex(out, r"asynchronous run .*\nasynchronous +2 .*\n1 asynchronous run: mean error \(worst\) of the epoch [\d.]+ % ")
        self.assertRegex(out, r"\nsynchronous +2 .*\n1 run: mean error")
        alone = self.succeed(1, "plan", "--check", "asynchronous").out
        self.assertNotIn("1 run: mean error", alone)
        regions = self.succeed(1, "plan", "--check", "asynchronous", "synchronous", "--regions").out
        self.assertNotRegex(regions, "(?m)^asynchronous ")
        # A plan edited by hand.
        damaged = dict(plan, asynchronous={"predicted": {}})
        os.mkdir(self.path("damaged"))
        self.write("damaged/plan.json", json.dumps(damaged))
        self.refuse(1, ["plan", "--check", "damaged"], "damaged/plan.json: not a plan of 'rossby train --machine'")

    def test_bad_input(self):
        for words, pattern in ((["--max-staleness", "-1"], "--max-staleness: -1 is not a number above 0"), (["--max-staleness", "nan"], "nan is not a number above 0"),
                               (["--updates", "sometimes"], "--updates")):
            self.refuse(1, ["plan", "windows.toml", "--machine", "machine.json", *words], pattern, code=2)
        out = self.plan(*self.sets(*GRAPH_WAVENET))
        self.assertRegex(out, "batch normalisation")

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    @staticmethod
    def sets(*settings):
        return [word for setting in settings for word in ("--set", setting)]


if __name__ == "__main__":
    support.main()
