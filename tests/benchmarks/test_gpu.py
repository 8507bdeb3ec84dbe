"""benchmarks/gpu and the devices of bench_kernels and bench_windows, on a simulated one: test_gpu.py GPU PROGRAMS."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

GPU, PROGRAMS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
del sys.argv[1:]


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)


class Gpu(unittest.TestCase):
    def test_all_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "results"
            words = [sys.executable, "-B", GPU, "--programs", PROGRAMS, "--out", out, "--device", "simulated", "--only",
                     "kernels,steps,streamed" + (",windows" if (PROGRAMS / "bench_windows").exists() else "")]
            done = run(*words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for row in ("relate_dense_fused/", "spmm_forward/", "| refine_10080 | as CUDA graphs |",
                        "| discover_80000_slab8_pinned-async+host |"):
                self.assertIn(row, done.stdout)
            kernels = json.loads((out / "kernels.json").read_text(encoding="utf-8"))
            self.assertEqual(kernels["context"]["device"], "simulated device")
            self.assertFalse([entry["name"] for entry in kernels["benchmarks"] if "error_occurred" in entry])
            if (PROGRAMS / "bench_windows").exists():
                self.assertIn("| windows_dcrnn_tf32_own_graphs |", done.stdout)
                windows = json.loads((out / "windows_dcrnn_model_own.json").read_text(encoding="utf-8"))
                self.assertEqual((windows["device"], windows["products"]), ("simulated device", "model"))
                self.assertLess(windows["loss_error"], 1e-6)
                # Two layers, 12 + 12 steps: what a GPU would be given, whatever the sizes (3,449 before levels were launches).
                self.assertLess(windows["operations"], 1500)
                self.assertEqual(windows["copies_in"], 0)
                for key in ("ahead_step_seconds", "peak_device_bytes", "step_flops", "gemm_flops_per_second"):
                    self.assertGreater(windows[key], 0)
            # A second time only what is missing is run.
            (out / "graphs.json").unlink()
            again = run(*words)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual([line.split()[1] for line in again.stdout.splitlines() if line.startswith("done")], ["graphs"])

    def test_a_program_that_fails_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bench_kernels"
            program.write_text("#!/bin/sh\necho went wrong\nexit 1\n", encoding="utf-8")
            program.chmod(0o755)
            done = run(sys.executable, "-B", GPU, "--programs", folder, "--out", folder + "/out", "--device", "simulated", "--only", "kernels")
            self.assertEqual(done.returncode, 1)
            self.assertIn("went wrong", done.stdout)
            self.assertIn("failed: kernels", done.stdout)
            self.assertFalse(list(pathlib.Path(folder, "out").glob("*.json*")))

    def test_bad_options_are_errors(self):
        done = run(sys.executable, "-B", GPU, "--programs", PROGRAMS, "--out", "/nowhere", "--only", "nothing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--only nothing", done.stderr)
        done = run(sys.executable, "-B", GPU, "--programs", "/no/such/folder", "--out", "/nowhere")
        self.assertIn("no such folder", done.stderr)
        for words in (["--device=gpu"], ["--device=simulated", "--threads=2"], ["--device=simulated", "--isa=all"]):
            done = run(PROGRAMS / "bench_kernels", *words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        if (PROGRAMS / "bench_windows").exists():
            for words in (["--device=gpu"], ["--products=half"], ["--sparse=mkl"], ["--sparse=cusparse"]):
                done = run(PROGRAMS / "bench_windows", *words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words[0].split("=")[0], done.stderr)

    def test_a_wrong_result_on_a_device_is_an_error(self):
        done = run(PROGRAMS / "bench_kernels", "--device=simulated", "--size=small", "--tolerance=0", "--benchmark_format=json",
                   "--benchmark_min_time=0.0001", "--benchmark_filter=relate_dense_fused/n:67/d:8/cols:8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong result", json.loads(done.stdout)["benchmarks"][0]["error_message"])


if __name__ == "__main__":
    unittest.main()
