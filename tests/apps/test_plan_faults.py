"""rossby plan and rossby calibrate without some measurements, pairs, or places for files."""

import json
import os
import re
import subprocess

import support
from plan_runs import PlanRuns
from sensors import sensors


class PlanFaults(PlanRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            cls.calibrate(ranks, "machine.json")
        cls.netcdf("two.nc", sensors(steps=30, nodes=2, source="0, 1", destination="1, 0", weight="1, 1"))

    def machine(self, name, change):
        """Writes a machine file that differs from the measurement."""
        machine = self.load("machine.json", "machine.schema.json")
        change(machine)
        return self.write(name, json.dumps(machine))

    def answer(self, ranks, *arguments):
        """Returns the candidates as text and as JSON."""
        out = self.succeed(ranks, "plan", *arguments, "--set", "parallel.threads=1").out
        self.succeed(ranks, "plan", *arguments, "--set", "parallel.threads=1", "-o", "answer.json")
        return out, self.load("answer.json", "candidates.schema.json")["candidates"]

    def test_ranks_with_different_numbers_of_threads_are_not_measured(self):
        command = [support.mpiexec]
        for threads in (1, 2):
            command += [":"] * (threads - 1) + ["-n", "1", "-x", f"OMP_NUM_THREADS={threads}", support.rossby, "calibrate", "--quick",
                                                "--only", "rates", "-o", "uneven.json"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"rossby: ranks have different numbers of threads: 1 on rank 0 \(host \S+\), 2 on rank 1 \(host \S+\). Set")
        self.assertFalse(os.path.exists(self.path("uneven.json")))

    def test_ops_that_some_ranks_lack(self):
        """Only the last stage has the loss: no rank may decide alone."""
        def without_loss(machine):
            machine["rates"] = []
            machine["ops"] = [op for op in machine["ops"] if op["op"] != "masked_absolute_error"]
        self.machine("odd.json", without_loss)
        # As `train --plan auto` plans it.
        found = self.answer(2, "windows.toml", "--machine", "odd.json", "--candidates")[1]
        self.assertIn(2, {c["stages"] for c in found})
        for c in found:
            self.assertRegex(c["refused"], "never measured: [a-z_, ]*masked_absolute_error")
        self.refuse(2, ["train", "windows.toml", "--run", "odd", "--machine", "odd.json", "--plan", "auto"], "no candidate fits. The first candidate is refused: .*masked_absolute_error")

    def test_pairs_that_there_are(self):
        pairs = ["stnn.toml", "--machine", "machine.json", "--candidates", "--set", "train.sampling=pairs", "--set", "train.pairs=1000"]
        self.assertEqual({c["batch"] for c in self.answer(1, *pairs)[1]}, {9 * 21})
        for target, refused in (("189", False), ("1000", True)):
            found = self.answer(1, *pairs, "--target-batch", target)[1]
            self.assertEqual({bool(c["refused"]) for c in found}, {refused}, found)

    def test_more_ranks_than_nodes(self):
        """As in trainings, a rank may own nothing."""
        found = self.answer(3, "stnn.toml", "--machine", "machine.json", "--candidates", "--set", "data.file=two.nc",
                            "--set", "relation.graph=edges")[1]
        self.assertEqual([c["refused"] for c in found if c["row_blocks"] == 3], [""])

    def test_gains_and_caveats(self):
        def silent(machine):
            machine["messages"], machine["stragglers"] = [], []
        self.machine("silent.json", silent)
        out, found = self.answer(1, "stnn.toml", "--machine", "silent.json", "--ranks", "1,2")
        for c in found:
            self.assertEqual(bool(c["refused"]), c["ranks"] > 1)
            self.assertEqual(c["speed_up"] > 0, c["ranks"] == 1, "no gain of what does not fit")
        self.assertRegex(out, r"\n +2 .* - +-  never measured: [a-z_, ]+")
        self.assertNotIn(" 0.00 ", out)
        # The plan reports how many candidates rely on missing measurements.
        out = self.answer(1, "stnn.toml", "--machine", "machine.json", "--ranks", "1,4", "--ranks-per-host", "2")[0]
        self.assertRegex(out, r"\n  \d+ of the \d+ candidates that fit(, the fastest among them)?: never measured, .*messages between hosts")

    def test_caveats_are_counted_by_name(self):
        def forgetful(machine):
            machine["ops"] = [op for op in machine["ops"] if op["op"] != "filter"]
        self.machine("forgetful.json", forgetful)
        out, found = self.answer(1, "stnn.toml", "--machine", "forgetful.json", "--ranks", "1,4", "--ranks-per-host", "2")
        fit = [c for c in found if not c["refused"]]
        told = {}
        for line in out.splitlines():
            if match := re.match(r"  (\d+) of the (\d+) candidates that fit(, the fastest among them)?: never measured, predicted from [^:]*: (.*)", line):
                self.assertEqual(int(match[2]), len(fit))
                told.update((name, (int(match[1]), bool(match[3]))) for name in match[4].split(", "))
        names = {name for c in fit for name in c["predicted"]["unmeasured"]}
        self.assertLessEqual({"filter", "messages between hosts"}, names)
        fastest = next(c for c in fit if c["fastest"])["predicted"]["unmeasured"]
        self.assertEqual(told, {name: (sum(name in c["predicted"]["unmeasured"] for c in fit), name in fastest) for name in names})
        self.assertGreater(len({count for count, _ in told.values()}), 1)

    def test_two_precisions(self):
        plan = ["plan", "stnn.toml", "--machine", "machine.json", "--set", "relation.discover=dense", "--set", "parallel.threads=1"]
        self.succeed(1, *plan, "--what-if", "precision=float,precision=bf16")
        for twice in ("precision=float,precision=double", "precision=bf16,precision=bf16"):
            self.refuse(1, [*plan, "--what-if", twice], "precision.* is given twice")

    def test_files_that_are_not_to_be_replaced(self):
        os.mkfifo(self.path("pipe"))
        self.succeed(1, "plan", "stnn.toml", "--machine", "machine.json", "-o", "plan.json")
        for words, why in ((["--replace", "-o", "pipe"], "pipe: cannot write this file: it is not a regular file"),
                           (["-o", "pipe"], "pipe: cannot write this file: it is not a regular file"),
                           (["--replace", "-o", "/dev/null"], "/dev/null: cannot write this file: it is not a regular file"),
                           (["--replace", "-o", "plan.json"], "plan.json: this is not a machine file, so that it is not replaced")):
            with self.subTest(words):
                self.refuse(1, ["calibrate", "--quick", "--only", "rates", *words], why)
        self.load("plan.json", "plan.schema.json")

    def test_two_measure_into_one_file(self):
        """Results that others wrote in the meantime are kept."""
        for begin in ("new", "old"):
            with self.subTest(begin):
                if begin == "old":
                    self.machine("both.json", lambda machine: machine.update(ops=[], rates=[]))
                both = [subprocess.Popen([support.rossby, "calibrate", "--quick", "--device", "none", "--only", what, "-o", "both.json"],
                                         cwd=self.folder, stdout=subprocess.DEVNULL) for what in ("ops", "rates")]
                self.assertEqual([process.wait(timeout=120) for process in both], [0, 0])
                machine = self.load("both.json", "machine.schema.json")
                self.assertTrue(machine["ops"] and machine["rates"])
                self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("both.json.")], [])


if __name__ == "__main__":
    support.main()
