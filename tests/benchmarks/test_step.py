"""bench_step at small sizes, alone and on two ranks. Usage: test_step.py BENCH_STEP [MPIRUN -n]"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
MPIRUN = sys.argv[1:]
del sys.argv[1:]
CASES = ("refine_10080", "refine_10080_pairs", "refine_2520", "discover_10080_slab1", "discover_10080_slab8",
         "discover_10080_pairs", "discover_80000_slab8",
         "given_10080_d8", "given_10080", "given_low_rank_10080", "refine_10080_d4", "million",
         "million_scattered", "million_scattered_rcm", "million_low_rank")


def bench(*words, ranks=1):
    start = [*MPIRUN, str(ranks)] if MPIRUN and ranks > 1 else []
    return subprocess.run([*start, PROGRAM, "--size=small", *words], capture_output=True, text=True, timeout=120,
                          check=False)


class Step(unittest.TestCase):
    def results(self, ranks, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            done = bench("--case=all", f"--json={path}", *words, ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def check(self, content, ranks, cases=CASES):
        self.assertEqual(content["context"]["ranks"], ranks)
        entries = {entry["name"]: entry for entry in content["benchmarks"]}
        for case in cases:
            end = f"/ranks:{ranks}/threads:1"
            epoch = entries[f"{case}/epoch{end}"]
            for counter in ("epoch_seconds", "node_steps_per_second", "batches_per_second", "peak_rss_bytes"):
                self.assertTrue(math.isfinite(epoch[counter]) and epoch[counter] > 0, f"{case} {counter}")
            for batch in ("decoder_batch", "dynamics_batch"):
                entry = entries[f"{case}/{batch}{end}"]
                parts = sum(entry[f"{part}_seconds"] for part in ("forward", "backward", "allreduce", "optimiser"))
                self.assertGreater(parts, 0)
                self.assertGreater(entry["floor_percent"], 0)
                self.assertLessEqual(entry["best_seconds"] * 1e3, entry["real_time"])
            sent = entries[f"{case}/dynamics_batch{end}"]["exchange_bytes"]
            self.assertTrue(sent > 0 if ranks > 1 else sent == 0, f"{case}: {sent} bytes sent")
        return entries

    def test_alone(self):
        self.check(self.results(1), 1)

    def test_on_a_simulated_device(self):
        content = self.results(1, "--device=simulated", "--epochs=2")
        self.assertEqual(content["context"]["device"], "simulated device")
        entries = self.check(content, 1, ("refine_10080", "refine_10080_pairs", "discover_10080_slab8", "given_low_rank_10080"))
        for name, entry in entries.items():
            self.assertEqual(entry.get("ahead_seconds", 0) > 0, "_batch/" in name, name)

    def test_streamed_to_a_simulated_device(self):
        """Chunks of ten of 77 rows, two of them there: each pass over W brings it, backward brings v (and m) and all leave."""
        ways = ["pageable", "pinned", "pageable-async", "pinned-async"]
        content = self.results(1, "--device=simulated", "--epochs=2", "--transfer=" + ",".join(["resident", *ways]))
        case = "discover_80000_slab8"
        entries = self.check(content, 1, (case, *(f"{case}_{way}" for way in ways)))
        end = "/dynamics_batch/ranks:1/threads:1"
        array = 77 * 77 * 4
        self.assertEqual(entries[case + end]["to_device_bytes"], 0)
        for way in ways:
            moved = entries[f"{case}_{way}{end}"]
            for counter, passes in (("to_device_bytes", 3), ("from_device_bytes", 2)):
                # Chunks at the turn of a sweep stay.
                self.assertTrue(0.6 * passes * array < moved[counter] <= passes * array, f"{way}: {counter} {moved[counter]}")
        self.assertIn("is unknown. Set pageable", bench("--device=simulated", "--transfer=fast").stderr)
        self.assertIn("add --device=cuda", bench("--transfer=pinned").stderr)

    def test_no_gpu(self):
        done = bench("--device=cuda", "--case=refine_10080")
        if done.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertIn("there is no GPU", done.stderr + done.stdout)
        self.assertEqual(bench("--device=tpu").returncode, 2)

    def test_two_ranks(self):
        if not MPIRUN:
            self.skipTest("built without MPI")
        entries = self.check(self.results(2, "--profile"), 2)
        # 7 x 11 nodes in two tiles cut along the longer side: 7 ghosts a side, there and back, 8 columns of 4 bytes,
        # in all but the last slab of 3 steps; the allreduce adds some doubles.
        ghosts = 2 * 2 * 7 * 4 * (8 + 3) / 2
        sent = entries["refine_10080/dynamics_batch/ranks:2/threads:1"]["exchange_bytes"]
        self.assertLess(abs(sent - ghosts), 400)
        self.assertGreater(sent, ghosts)

    def test_a_wrong_loss_is_an_error(self):
        done = bench("--case=refine_10080", "--tolerance=0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong result", done.stdout)

    def test_bad_options_are_errors_of_one_line(self):
        for words in (["--case=refine_1008"], ["--threads=0"], ["--isa=none_such"], ["--epochs=many"], ["--nonsense"]):
            done = bench(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
