"""Measurements of a plan if the machine file lacks them: which are made, reported, kept, and not touched."""

import json
import os
import re
import signal
import subprocess
import time

import support
from plan_runs import PlanRuns
from sensors import sensors

FAR = ["--set", "parallel.threads=1", "--set", "model.latent=5", "--set", "train.joint=true", "--set", "relation.self=true"]
MEASURED = r"plan +measured ([0-9]+) calls of this training in [0-9.]+ s: kept in "


class Measured(PlanRuns):
    measures = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            cls.calibrate(ranks, "machine.json")
        cls.netcdf("two.nc", sensors(steps=30, nodes=2, source="0, 1", destination="1, 0", weight="1, 1"))

    def setUp(self):
        super().setUp()
        self.write("own.json", self.text("machine.json"))

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def change(self, change):
        machine = self.load("machine.json", "machine.schema.json")
        change(machine)
        self.write("own.json", json.dumps(machine))

    def plan(self, ranks, *arguments):
        """Returns the output of the program, and the plan."""
        out = self.succeed(ranks, "plan", *arguments, "--machine", "own.json").out
        self.succeed(ranks, "plan", *arguments, "--machine", "own.json", "--no-measure", "-o", "plan.json")
        return out, self.load("plan.json", "plan.schema.json")

    def test_calls_that_are_far(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                before = self.text("own.json")
                doubtful = self.succeed(ranks, "plan", "stnn.toml", *FAR, "--machine", "own.json", "--no-measure").out
                self.assertNotRegex(doubtful, MEASURED)
                self.assertEqual(self.text("own.json"), before, "--no-measure leaves the file as it is")
                out, plan = self.plan(ranks, "stnn.toml", *FAR)
                calls = int(re.search(MEASURED + r"own\.json\n", out)[1])
                self.assertGreater(calls, 10)
                own = self.load("own.json", "machine.schema.json")
                had = len(json.loads(before)["ops"])
                self.assertTrue(had < len(own["ops"]) <= had + calls)
                self.assertEqual({op["ranks"] for op in own["ops"][had:]}, {ranks})
                self.assertEqual((plan["predicted"]["unmeasured"], plan["predicted"]["far_share"]), ([], 0))
                self.assertNotIn("far from all", out)
                self.assertNotRegex(self.succeed(ranks, "plan", "stnn.toml", *FAR, "--machine", "own.json").out, MEASURED)

    def test_trainings_and_profiles(self):
        out = self.succeed(2, *self.arguments("run", "train.epochs=3"), *FAR, "--machine", "own.json").out
        self.assertRegex(out, MEASURED)
        self.assertRegex(out, r"measured \([+-]")
        self.assertEqual(self.load("run/plan.json", "plan.schema.json")["predicted"]["far_share"], 0)
        self.write("candidates.toml", '[[candidate]]\nname = "a"\nmodel.name = "gru"\nmodel.units = 9\n')
        before = self.text("own.json")
        arguments = ["profile", "windows.toml", "--candidates", "candidates.toml", "--budget", "100%", "--machine", "own.json"]
        self.succeed(1, *arguments, "-o", "without", "--no-measure")
        self.assertEqual(self.text("own.json"), before)
        self.assertRegex(self.succeed(1, *arguments, "-o", "with").out, MEASURED)

    def test_candidates_share_what_was_measured(self):
        words = ["plan", "windows.toml", "--set", "parallel.threads=1", "--set", "model.units=11", "--candidates", "--machine", "own.json"]
        self.assertGreater(len(re.findall(MEASURED, self.succeed(2, *words).out)), 1, "grids have calls of their own")
        self.assertNotRegex(self.succeed(2, *words).out, MEASURED)
        before = self.text("own.json")
        self.succeed(1, *words[:-1], "own.json", "--set", "model.units=13", "--ranks", "1,2")
        self.assertEqual(self.text("own.json"), before, "ranks that are not there are not measured")

    def test_precisions_and_threads_that_were_never_measured(self):
        for word in ("model.precision=double", "parallel.threads=2"):
            out, plan = self.plan(1, "windows.toml", "--set", word)
            self.assertRegex(out, MEASURED)
            self.assertLess(plan["predicted"]["far_share"], 0.01)
        self.refuse(1, ["plan", "stnn.toml", "--set", "parallel.threads=3", "--machine", "own.json", "--no-measure"], "was not measured in float with 3")

    def test_ranks_without_nodes_and_stages(self):
        for config, *settings in (("stnn.toml", "data.file=two.nc"), ("windows.toml", "data.file=two.nc"),
                                  ("stnn.toml", "parallel.time_groups=3", "train.slab_steps=12"), ("windows.toml", "parallel.time_groups=3", "window.batch=6")):
            words = [word for s in (*settings, "parallel.threads=1") for word in ("--set", s)]
            out, plan = self.plan(3, config, *words)
            self.assertRegex(out, MEASURED)
            self.assertLess(plan["predicted"]["far_share"], 0.01, settings)
        out, _ = self.plan(2, "windows.toml", "--set", "parallel.stages=2", "--set", "parallel.threads=1", "--set", "model.units=11")
        self.assertRegex(out, MEASURED)

    def test_what_cannot_be_measured_or_kept(self):
        self.change(lambda machine: machine.update(processor="another"))
        before = self.text("own.json")
        out, plan = self.plan(2, "stnn.toml", *FAR)
        self.assertIn("plan      calls were not measured here: the file is of another machine (another, ", out)
        self.assertIn("far from all measured ones. Start 'rossby plan' on the ranks of the training", out)
        self.assertGreater(plan["predicted"]["far_share"] + len(plan["predicted"]["unmeasured"]), 0)
        self.assertEqual(self.text("own.json"), before)
        self.refuse(1, ["plan", "stnn.toml", "--no-measure"], "--machine", code=2)
        self.write("own.json", self.text("machine.json")[:1000])
        self.refuse(2, ["plan", "stnn.toml", "--machine", "own.json"], "own.json: the file is not JSON")

    def test_a_process_that_is_killed_leaves_the_old_file(self):
        known = {json.dumps(op) for op in json.loads(self.text("machine.json"))["ops"]}
        for seconds in (0.15, 0.3, 0.5, 0.8):
            process = subprocess.Popen([support.rossby, "plan", "stnn.toml", *FAR, "--machine", "own.json"], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            process.wait()
            own = self.load("own.json", "machine.schema.json")
            self.assertLessEqual(known, {json.dumps(op) for op in own["ops"]})

    def test_two_at_once_lose_nothing(self):
        commands = [[support.rossby, "plan", "stnn.toml", "--set", f"model.latent={latent}", "--set", "parallel.threads=1", "--machine", "own.json"]
                    for latent in (5, 7)]
        processes = [subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True) for command in commands]
        for process in processes:
            self.assertRegex(process.communicate(timeout=100)[0], MEASURED)
        widths = {op["channels"] for op in self.load("own.json", "machine.schema.json")["ops"]}
        self.assertLessEqual({5, 7}, widths)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("own.json.")], [])


if __name__ == "__main__":
    support.main()
