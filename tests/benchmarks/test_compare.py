"""benchmarks/compare on small result files. Usage: test_compare.py COMPARE"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

COMPARE = sys.argv.pop(1)


def run(name, value, unit="us", **more):
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": value, "cpu_time": value,
            "time_unit": unit, "iterations": 3, **more}


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def results(self, name, *runs):
        return self.file(name, {"context": {}, "benchmarks": list(runs)})

    def compare(self, *words):
        done = subprocess.run([sys.executable, "-B", COMPARE, *words], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def verdicts(self, done):
        return {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines()[1:]}

    def test_ratio_and_verdict(self):
        old = self.results("old", run("a", 100), run("b", 100), run("c", 1, "ms"), run("gone", 1))
        new = self.results("new", run("a", 130), run("b", 104), run("c", 500), run("added", 1))
        done = self.compare(old, new)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.verdicts(done), {"a": "slower", "b": "same", "c": "faster", "gone": "missing", "added": "new"})
        self.assertIn("1.300", done.stdout)
        self.assertEqual(self.compare(old, new, "--threshold", "1.4").returncode, 0)
        self.assertEqual(self.compare(old, new, "--filter", "[bc]").returncode, 0)

    def test_the_median_of_repetitions_counts(self):
        old = self.results("old", run("a", 100), run("a", 101), run("a", 900))
        new = self.results("new", run("a", 90), run("a", 102), run("a", 1000))
        self.assertEqual(self.verdicts(self.compare(old, new)), {"a": "same"})
        median = run("a", 300, aggregate_name="median")
        median["run_type"] = "aggregate"
        mean = dict(median, aggregate_name="mean", real_time=1)
        done = self.compare(old, self.results("newer", mean, median))
        self.assertEqual(self.verdicts(done), {"a": "slower"})

    def test_a_wrong_result_fails(self):
        old = self.results("old", run("a", 100), run("b", 1))
        new = self.results("new", run("b", 1), {"name": "a", "run_name": "a", "run_type": "iteration",
                                                "error_occurred": True, "error_message": "wrong result"})
        done = self.compare(old, new)
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong result", done.stdout)

    def test_reference(self):
        result = self.results("result", run("a/ranks:2", 100, floor_percent=62.0))
        figures = [{"name": "a/ranks:2:floor_percent", "value": 60, "low": 55, "high": 65, "unit": "%"},
                   {"name": "a/ranks:2:seconds", "value": 1e-4, "low": 0.9e-4, "high": 1.1e-4, "unit": "s"}]
        inside = self.compare("--reference", self.file("ref", {"machine": "m", "figures": figures}), result)
        self.assertEqual((inside.returncode, set(self.verdicts(inside).values())), (0, {"inside"}))
        figures[0]["high"] = 61
        outside = self.compare("--reference", self.file("ref", {"machine": "m", "figures": figures}), result)
        self.assertEqual(outside.returncode, 1)
        self.assertEqual(sorted(self.verdicts(outside).values()), ["inside", "outside"])
        figures[1]["name"] = "b:seconds"
        missing = self.compare("--reference", self.file("ref", {"machine": "m", "figures": figures}), result)
        self.assertEqual(sorted(self.verdicts(missing).values()), ["missing", "outside"])

    def test_a_written_reference_holds_its_own_result(self):
        result = self.results("result", run("a", 100, floor_percent=62.0), run("b", 5))
        reference = os.path.join(self.folder.name, "machine.json")
        written = self.compare("--write", reference, "--figure", "*:seconds", "--figure", "a:floor*", "--spread", "0.1",
                               "--machine", "some machine", result)
        self.assertEqual(written.returncode, 0, written.stderr)
        with open(reference, encoding="utf-8") as file:
            content = json.load(file)
        self.assertEqual([figure["unit"] for figure in content["figures"]], ["s", "%", "s"])
        self.assertEqual(self.compare("--reference", reference, result).returncode, 0)
        other = self.results("other", run("a", 100, floor_percent=75.0), run("b", 5))
        self.assertEqual(self.compare("--reference", reference, other).returncode, 1)

    def test_a_reference_of_several_results_has_their_medians_and_bounds_of_their_own(self):
        results = [self.results(f"result{i}", run("a", time, memory_bytes=1000.0)) for i, time in enumerate((100, 900, 300))]
        reference = os.path.join(self.folder.name, "machine.json")
        written = self.compare("--write", reference, "--figure", "*bytes=0.05", "--figure", "*", "--spread", "0.5", *results)
        self.assertEqual(written.returncode, 0, written.stderr)
        with open(reference, encoding="utf-8") as file:
            figures = {figure["name"]: figure for figure in json.load(file)["figures"]}
        self.assertEqual(sorted(figures), ["a:memory_bytes", "a:seconds"])
        self.assertAlmostEqual(figures["a:seconds"]["value"], 300e-6)
        self.assertAlmostEqual(figures["a:seconds"]["high"], 450e-6)
        self.assertAlmostEqual(figures["a:memory_bytes"]["low"], 950)
        bad = self.compare("--write", reference, "--figure", "*=much", *results)
        self.assertEqual((bad.returncode, len(bad.stderr.splitlines())), (2, 1), bad.stderr)
        self.assertIn("'much' is no spread", bad.stderr)

    def test_a_reference_does_not_pass_a_wrong_result(self):
        reference = self.file("ref", {"machine": "m", "figures": [{"name": "a:seconds", "value": 1, "low": 0, "high": 9, "unit": "s"}]})
        good, wrong = self.results("good", run("a", 1)), self.results("wrong", dict(run("a", 1), error_occurred=True))
        for results in ([wrong], [good, wrong]):
            done = self.compare("--reference", reference, *results)
            self.assertEqual((done.returncode, done.stdout.splitlines()[1].endswith("wrong result")), (1, True), done.stdout)
            written = self.compare("--write", os.path.join(self.folder.name, "new"), *results)
            self.assertEqual((written.returncode, written.stderr), (2, "compare: wrong results make no reference: a\n"))
        # A time that is no number is no time.
        self.assertIn("wrong result", self.compare(good, self.file("nan", json.dumps({"benchmarks": [run("a", float("nan"))]}))).stdout)

    def test_bad_numbers(self):
        good = self.results("good", run("a", 1))
        for words in (["--threshold", "nan", good, good], ["--threshold", "0.5", good, good],
                      *(["--write", os.path.join(self.folder.name, "new"), f"--spread={spread}", good] for spread in ("-3", "nan")),
                      ["--write", os.path.join(self.folder.name, "new"), "--figure", "*=-1", good],
                      ["--write", os.path.join(self.folder.name, "no", "such", "file"), good]):
            done = self.compare(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (words, done.stderr))
        self.assertEqual(os.listdir(self.folder.name), ["good"])

    def test_bad_entries(self):
        good = self.results("good", run("a", 1))
        for number, entry in enumerate([{"real_time": 1}, "a", dict(run("a", 1), real_time="1"), dict(run("a", 1), time_unit="h"),
                                        dict(run("a", 1), time_unit=[]), dict(run("a", 1), run_name=1)]):
            done = self.compare(good, self.results(f"bad{number}", entry))
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (entry, done.stderr))
        figure = {"name": "a:seconds", "value": 1, "low": 0, "high": 9, "unit": "s"}
        for figures in ({"a": 1}, ["a"], *([{k: v for k, v in figure.items() if k != key}] for key in figure), [dict(figure, low="0")]):
            done = self.compare("--reference", self.file("ref", {"machine": "m", "figures": figures}), good)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (figures, done.stderr))

    def test_bad_files(self):
        good = self.results("good", run("a", 1))
        for bad in (self.file("text", "no json"), self.file("list", []), self.file("other", {"x": 1}), "/nowhere"):
            done = self.compare(good, bad)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(self.compare(good, self.results("foreign", run("b", 1))).returncode, 2)
        self.assertEqual(self.compare(good).returncode, 2)


if __name__ == "__main__":
    unittest.main()
