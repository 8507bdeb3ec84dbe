"""Compares the predicted memory of a rank with trainings."""

import json
import os
import statistics

import support


class PlannedMemory(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            result = cls.run_ranks(ranks, "calibrate", "-o", "machine.json", "--quick")
            assert result.codes == [0] * ranks, result

    def test_memory(self):
        """Trainings take 120 MiB or more, of which the process itself is less than half. The aim is an error
        of 3 %, which they meet on the machine of benchmarks/measured. Other machines have other libraries,
        kernels and pages. The limit here is twice the aim, for the median of three runs."""
        if "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ:
            self.skipTest("sanitizers take memory of their own")
        self.succeed(1, "data", "synth", "--lat", "220", "--lon", "240", "--steps", "50", "-o", "grid.nc")
        self.succeed(1, "data", "synth", "--lat", "60", "--lon", "90", "--steps", "26", "-o", "few.nc")
        self.succeed(1, "data", "synth", "--lat", "12", "--lon", "22", "--steps", "78", "-o", "windows.nc")
        base = '[data]\nfile = "{}"\nnodes = "all"\n[split]\ntrain = {}\n[train]\nepochs = 2\n'
        self.write("sparse.toml", base.format("grid.nc", 48) +
                   'slab_steps = 8\n[relation]\ngraph = "grid8"\nmode = "refine"\n[model]\nlatent = 4\n')
        self.write("dense.toml", base.format("few.nc", 24) +
                   'slab_steps = 4\n[relation]\ndiscover = "dense"\n[model]\nlatent = 3\n')
        self.write("recurrent.toml", base.format("windows.nc", 77) +
                   '[relation]\ngraph = "grid"\n[model]\nname = "dcrnn"\n[window]\ninputs = 6\noutputs = 6\nbatch = 32\n')
        cases = [("sparse", 1), ("recurrent", 2)]
        if support.long_tests:
            cases += [("sparse", 2), ("dense", 1), ("recurrent", 1)]
        for config, ranks in cases:
            with self.subTest(config=config, ranks=ranks):
                measured = []
                for k in range(3):
                    run = f"memory_{config}{ranks}_{k}"
                    self.succeed(ranks, "train", f"{config}.toml", "--run", run, "--machine", "machine.json", "--set",
                                 "checkpoint.keep=0", "--set", "parallel.threads=1")
                    with open(self.path(f"{run}/plan.json"), encoding="utf-8") as file:
                        plan = json.load(file)
                    measured.append(plan["measured"]["memory_bytes"])
                median = statistics.median(measured)
                self.assertGreater(median, 120 * 2**20)
                self.assertAlmostEqual(plan["predicted"]["memory_bytes"] / median, 1, delta=0.06, msg=f"{measured}")


if __name__ == "__main__":
    support.main()
