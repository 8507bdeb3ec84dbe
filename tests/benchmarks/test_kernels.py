"""bench_kernels at small sizes. Usage: test_kernels.py BENCH_KERNELS"""

import json
import math
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def bench(*words):
    return subprocess.run([PROGRAM, "--size=small", "--benchmark_format=json", "--benchmark_min_time=0.0001", *words],
                          capture_output=True, text=True, timeout=120, check=False)


class Kernels(unittest.TestCase):
    def test_every_kernel_is_right_and_has_its_floor(self):
        done = bench("--threads=1,2", "--isa=all")
        self.assertEqual(done.returncode, 0, done.stderr)
        content = json.loads(done.stdout)
        for threads in (1, 2):
            self.assertGreater(float(content["context"][f"bandwidth_bytes_per_second_{threads}"]), 1e8)
            self.assertGreater(float(content["context"][f"gemm_flops_per_second_{threads}"]), 1e8)
        families = {entry["name"].split("/")[0] for entry in content["benchmarks"]}
        for family in ("relate_sparse_forward", "relate_sparse_backward", "spmm_forward", "spmm_adjoint", "relate_dense_forward",
                       "relate_dense_backward", "relate_dense_update", "relate_dense_update_bf16", "linear_forward", "linear_backward_input", "linear_backward_weight",
                       "low_rank_project", "column_sum", "tanh_forward", "masked_squared_error_backward",
                       "squared_difference_gradients", "clamp_l1_backward", "embed_columns_forward",
                       "embed_pairs_backward", "adam", "adam_replay", "sampled_sparse_forward", "sampled_sparse_backward",
                       "sampled_dense_forward", "sampled_dense_backward"):
            self.assertIn(family, families)
        for entry in content["benchmarks"]:
            for counter in ("floor_percent", "floor_seconds", "bytes_per_second", "working_set_bytes"):
                self.assertTrue(math.isfinite(entry[counter]) and entry[counter] > 0, f"{entry['name']} {counter}")

    def test_a_wrong_result_is_an_error(self):
        done = bench("--threads=1", "--tolerance=0", "--benchmark_filter=relate_sparse_forward/given/n:77/d:8/cols:8")
        self.assertEqual(done.returncode, 1)
        entry = json.loads(done.stdout)["benchmarks"][0]
        self.assertTrue(entry["error_occurred"])
        self.assertIn("wrong result", entry["error_message"])

    def test_bad_options_are_errors_of_one_line(self):
        for words in (["--isa=none_such"], ["--threads=0"], ["--size=huge"], ["--tolerance=x"]):
            done = bench(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertEqual(bench("--benchmark_filter=no_such_benchmark").returncode, 1)


if __name__ == "__main__":
    unittest.main()
