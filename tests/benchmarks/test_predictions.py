"""benchmarks/predictions on small trainings: test_predictions.py PREDICTIONS ROSSBY MPIEXEC."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PREDICTIONS, ROSSBY, MPIEXEC = sys.argv[1:4]


class Predictions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="rossby_predictions_")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        for ranks in (1, 2):
            subprocess.run([MPIEXEC, "-n", str(ranks), ROSSBY, "calibrate", "--quick", "-o", "machine.json"], cwd=cls.folder,
                           check=True, capture_output=True, timeout=100)

    def run_script(self, *arguments, code=0):
        result = subprocess.run([sys.executable, "-B", PREDICTIONS, "--rossby", ROSSBY, "--mpirun", MPIEXEC + " -n {ranks}", *arguments],
                                cwd=self.folder, capture_output=True, text=True, check=False, timeout=200)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_table(self):
        for _ in range(2):  # in the same folder again
            out = self.run_script("--machine", "machine.json", "--only", "1,?00*", "--ranks", "1,2", "--epochs", "3",
                                  "--seconds", "0.001").stdout
            rows = [line for line in out.splitlines() if line.startswith("| 1,")]
            self.assertEqual([row.split(" | ")[0] for row in rows], ["| 1,200 cells, given, d = 2, slab 6", "| 1,800, refine, d = 1, slab 8",
                                                                    "| 1,200, discover, d = 2, slab 6"])
        for number, row in zip((0, 5, 15), rows):
            figures = [float(figure) for figure in row.strip("| ").split(" | ")[1:]]
            for ranks in (1, 2):
                plan = json.loads((self.folder / f"predictions/{number:02}_{ranks}_0/plan.json").read_text(encoding="utf-8"))
                measured, predicted = plan["measured"]["step_seconds"], plan["predicted"]["step_seconds"]
                step, told, error, validation, missed, _ = figures[6 * (ranks - 1):6 * ranks]
                self.assertAlmostEqual(step / (1e3 * measured), 1, delta=1e-3)
                self.assertAlmostEqual(told / (1e3 * predicted), 1, delta=1e-3)
                self.assertAlmostEqual(error, 100 * (predicted / measured - 1), delta=0.51)
                measured, predicted = (plan[kind]["validation_seconds"] for kind in ("measured", "predicted"))
                self.assertAlmostEqual(validation / (1e3 * measured), 1, delta=1e-3)
                self.assertAlmostEqual(missed, 100 * (predicted / measured - 1), delta=0.51)
        self.assertEqual(len(re.findall(r"^\d ranks?: mean error [0-9.]+ % .*exact in 3 of 3$", out, re.M)), 2, out)

    def test_calibrates_before_each_round(self):
        run = self.run_script("--machine", "own.json", "--calibrate=--quick", "--only", "1,?00*, given*", "--ranks", "2,1", "--epochs", "3",
                              "--seconds", "0.001", "--rounds", "3", "--work", "own")
        machine = json.loads((self.folder / "own.json").read_text(encoding="utf-8"))
        self.assertEqual({op["ranks"] for op in machine["ops"]}, {1, 2})
        runs = [re.search(r"'predicted': ([0-9.e-]+), 'error': ([0-9.e+-]+)", line).groups()
                for line in run.stderr.splitlines() if "2 ranks" in line]
        self.assertEqual(len({told for told, _ in runs}), 3, "each round is told from what was measured before it")
        middle = sorted(float(error) for _, error in runs)[1]
        row = next(line for line in run.stdout.splitlines() if line.startswith("| 1,200"))
        self.assertAlmostEqual(float(row.strip("| ").split(" | ")[3]), middle, delta=0.51)

    def test_bad_input(self):
        self.assertIn("no training is called so", self.run_script("--machine", "machine.json", "--only", "x", code=1).stderr)
        self.assertIn("no.json", self.run_script("--machine", "no.json", "--only", "1,200 c*", "--ranks", "1", code=1).stderr)
        self.assertIn("whole numbers", self.run_script("--machine", "machine.json", "--ranks", "1,b", code=2).stderr)
        self.assertIn("one for each number of ranks",
                      self.run_script("--machine", "a", "--machine", "b", "--machine", "c", "--ranks", "1,2", code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
