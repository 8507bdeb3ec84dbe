"""benchmarks/predictions on small trainings: test_predictions.py PREDICTIONS ROSSBY MPIEXEC."""

import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PREDICTIONS, ROSSBY, MPIEXEC = sys.argv[1:4]
LOADER = importlib.machinery.SourceFileLoader("predictions", PREDICTIONS)
predictions = importlib.util.module_from_spec(importlib.util.spec_from_loader("predictions", LOADER))
LOADER.exec_module(predictions)


class Options:
    """Of draws that are looked at and not trained."""
    rossby, only, ranks, seed, random, set = ROSSBY, "*", (1,), "a", 40, []


class Predictions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="rossby_predictions_")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        Options.work = cls.folder
        for ranks in (1, 2):
            subprocess.run([MPIEXEC, "-n", str(ranks), ROSSBY, "calibrate", "--quick", "-o", "machine.json"], cwd=cls.folder,
                           check=True, capture_output=True, timeout=100)

    def run_script(self, *arguments, code=0):
        result = subprocess.run([sys.executable, "-B", PREDICTIONS, "--rossby", ROSSBY, "--mpirun", MPIEXEC + " -n {ranks}", *arguments],
                                cwd=self.folder, capture_output=True, text=True, check=False, timeout=200)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def draws(self, **changed):
        """Models and terms of each draw, without making configurations."""
        found = []
        options = type("Changed", (Options,), changed)
        original, predictions.draw_case = predictions.draw_case, lambda _, keys, number, name, terms: found.append((name, frozenset(terms)))
        try:
            predictions.drawn(options)
        finally:
            predictions.draw_case = original
        return found

    def test_table(self):
        out = self.run_script("--machine", "machine.json", "--random", "2", "--seed", "b", "--only", "*", "--rounds", "2", "--epochs", "3",
                              "--seconds", "0.001").stdout
        rows = [re.split(r" \| ", line.strip("| ")) for line in out.splitlines() if re.match(r"\| (0[01]|demo)", line)]
        self.assertEqual([row[1] for row in rows], ["1", "2"] * 3, out)
        for row in rows:
            run = self.folder / f"predictions/{row[0].split(' ')[0]}_{row[1]}_1"
            plan = json.loads((run / "plan.json").read_text(encoding="utf-8"))
            self.assertAlmostEqual(float(row[3]) / (1e3 * plan["predicted"]["step_seconds"]), 1, delta=1e-3)
            self.assertAlmostEqual(float(row[5]), 100 * (float(row[3]) / float(row[2]) - 1), delta=0.2)
        self.assertIn("messages and bytes not exact in 0 of 6 (bar 0)", out)
        self.assertRegex(out, r"\n(met |MISSED) (mean error of [0-9]+ steps|worst of [0-9]+ shorter steps)")
        self.assertRegex(out, r"in the expected interval: [0-6] of 6")

    def test_goes_on(self):
        arguments = ("--machine", "machine.json", "--only", "demo", "--ranks", "1", "--epochs", "3", "--seconds", "0.001", "--work", "pieces", "--seed", "c")
        self.assertIn("give the same call again", self.run_script(*arguments, "--minutes", "0", code=75).stderr)
        self.assertRegex(self.run_script(*arguments, "--rounds", "1").stdout, r"\| demo \| 1 \|")
        kept = json.loads((self.folder / "pieces/c.json").read_text(encoding="utf-8"))
        self.assertEqual(list(kept), ["plan of demo, 1 ranks", "demo, 1 ranks, round 0"])
        self.assertRegex(self.run_script(*arguments, "--rounds", "1", "--minutes", "0").stdout, r"\| demo \| 1 \|", "nothing is left to train")

    def test_choices(self):
        out = self.run_script("--machine", "machine.json", "--random", "2", "--seed", "b", "--choose", "--rounds", "1", "--epochs", "3",
                              "--seconds", "0.001", "--work", "choices").stdout
        rows = re.findall(r"(?m)^\| (0[01] [^|]*) \| ([0-9]+) \| ([^|]*) \| ([^|]*) \| ([0-9.]+) \|$", out)
        self.assertEqual(len(rows), 2, out)
        for _, candidates, chosen, best, slower in rows:
            self.assertGreaterEqual(int(candidates), 2, "one or two time groups, or two slabs")
            self.assertEqual(chosen == best, float(slower) == 0, out)
        self.assertRegex(out, r"\n(met |MISSED) within 5 % of the best in [0-2] of 2")

    def test_draws(self):
        found = self.draws()
        self.assertEqual((len(found), found), (40, self.draws()), "the same seed draws the same")
        self.assertNotEqual(found, self.draws(seed="b"))
        for name in predictions.key_table(Options)["model.name"]:
            self.assertGreaterEqual(sum(model == name for model, _ in found), 3, name)
        for kind, terms in (("stnn", predictions.TERMS), ("", predictions.WINDOW_TERMS)):
            for term in terms:
                self.assertGreaterEqual(sum(term in of for model, of in found if (model == "stnn") == (kind == "stnn")), 3, term)

    def test_summary(self):
        good = {"measured": 1e-3, "predicted": 1.05e-3, "interval": [0.9e-3, 1.2e-3], "error": 5, "apart": 3, "memory": 1e6, "of_memory": 1e8,
                "exact": True, "on_demand": 1}
        self.assertNotIn("MISSED", predictions.summary([good] * 20))
        short = good | {"measured": 1e-4, "predicted": 1.15e-4, "error": 15}
        self.assertNotIn("MISSED", predictions.summary([good, short]), "short steps count in seconds")
        for bad, bar in (({"error": -40}, "worst 40.0 %"), ({"memory": 9 * 2**20}, "memory"), ({"exact": False}, "not exact"),
                         ({"on_demand": 6}, "on demand"), ({"apart": 12}, "repeats")):
            missed = [line for line in predictions.summary([good, good | bad]).splitlines() if line.startswith("MISSED")]
            self.assertTrue(any(bar in line for line in missed), missed)

    def test_bad_input(self):
        self.assertIn("nothing to train", self.run_script("--machine", "machine.json", "--only", "x", code=1).stderr)
        self.assertIn("no.json", self.run_script("--machine", "no.json", "--only", "demo", "--ranks", "1", code=1).stderr)
        self.assertIn("its series is not in --data", self.run_script("--machine", "machine.json", "--only", "heat_given", code=1).stderr)
        self.assertIn("whole numbers", self.run_script("--machine", "machine.json", "--ranks", "1,b", code=2).stderr)
        self.assertIn("one for each number of ranks",
                      self.run_script("--machine", "a", "--machine", "b", "--machine", "c", "--ranks", "1,2", code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
