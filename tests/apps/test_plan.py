"""rossby calibrate and rossby plan: a machine's measurements, predictions from them, and what became of those."""

import json

import support
from sensors import Runs, sensors
from test_device import STNN
from test_schemas import faults, schema_of
from test_windows import WINDOWS


class Plan(Runs):
    config = "stnn.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ring = range(9)
        cls.netcdf("sensors.nc", sensors(30, 9, ", ".join(map(str, ring)), ", ".join(str((i + 1) % 9) for i in ring),
                                         ", ".join("1" for _ in ring)))
        cls.write("windows.toml", WINDOWS)
        cls.write("stnn.toml", STNN.replace('"nearest"', '"edges"').replace('"double"', '"float"'))
        for ranks in (1, 2):
            result = cls.run_ranks(ranks, "calibrate", "-o", "machine.json", "--quick")
            assert result.codes == [0] * ranks, result

    def load(self, name, schema):
        with open(self.path(name), encoding="utf-8") as file:
            value = json.load(file, parse_constant=self.fail)
        schema = schema_of(schema)
        self.assertEqual(faults(value, schema, schema), [])
        return value

    def test_calibrate(self):
        machine = self.load("machine.json", "machine.schema.json")
        self.assertEqual({op["ranks"] for op in machine["ops"]}, {1, 2}, "one run is added to the other")
        self.assertEqual({sample["ranks"] for sample in machine["messages"]}, {2})
        self.assertEqual({sample["kind"] for sample in machine["messages"]},
                         {"gather", "scatter_add", "allgather", "reduce_scatter", "allreduce"})
        self.assertEqual({rate["kind"] for rate in machine["rates"]}, {"stream", "gemm", "disk_write", "disk_read"})
        names = {op["op"] for op in machine["ops"]}
        for name in ("relate_sparse", "relate_sparse_learned", "relate_dense_learned", "diffusion", "gru_output", "embed",
                     "catch_up", "optimiser", "reduction"):
            self.assertIn(name, names)
        for op in machine["ops"]:
            self.assertLess(op["seconds"], 1)
        self.assertEqual({s["ranks"]: s["factor"] >= 1 for s in machine["stragglers"]}, {1: True, 2: True})

    def test_a_training_of_ones_own(self):
        before = self.load("machine.json", "machine.schema.json")
        self.succeed(1, "calibrate", "-o", "own.json", "--quick", "--config", "windows.toml")
        own = self.load("own.json", "machine.schema.json")
        self.assertGreater(len(own["ops"]), len([op for op in before["ops"] if op["ranks"] == 1]))
        # What was measured itself is near to itself.
        self.succeed(1, "plan", "windows.toml", "--machine", "own.json", "-o", "own_plan.json")
        self.assertLess(self.load("own_plan.json", "plan.schema.json")["predicted"]["far_share"], 0.01)

    def test_double(self):
        self.succeed(1, "calibrate", "-o", "double.json", "--quick", "--precision", "double")
        self.assertEqual({op["precision"] for op in self.load("double.json", "machine.schema.json")["ops"]}, {"double"})
        self.succeed(1, "plan", "windows.toml", "--machine", "double.json", "--set", "model.precision=double")
        self.refuse(1, ["calibrate", "-o", "double.json", "--precision", "half"], "--precision", code=2)

    def test_plan(self):
        for config, ranks in (("stnn.toml", 1), ("stnn.toml", 2), ("windows.toml", 2)):
            with self.subTest(config=config, ranks=ranks):
                self.succeed(ranks, "plan", config, "--machine", "machine.json", "-o", "plan.json")
                plan = self.load("plan.json", "plan.schema.json")
                self.assertEqual((plan["ranks"], plan["hosts"], plan["nodes"]), (ranks, 1, 9))
                self.assertNotIn("measured", plan)
                predicted = plan["predicted"]
                parts = sum(predicted[part] for part in ("forward", "backward", "optimiser", "messages", "reduction",
                                                         "straggler"))
                self.assertAlmostEqual(parts, predicted["step_seconds"])
                self.assertEqual(predicted["messages"] > 0, ranks > 1)
                self.assertEqual(predicted["unmeasured"], [])
                messages = sum(op["messages"] * op["calls"] for op in plan["ops"] if op["op"] != "reduction")
                self.assertEqual(messages > 0, ranks > 1)
        out = self.succeed(1, "plan", "stnn.toml", "--machine", "machine.json").out
        self.assertRegex(out, r"stnn: 9 nodes, 1 ranks on 1 host, [0-9]+ threads? each")
        self.assertRegex(out, r"  step +[0-9.]+ ms +100.0 %")

    def test_train_and_check(self):
        for ranks in (1, 2):
            run = f"run{ranks}"
            out = self.succeed(ranks, *self.arguments(run, "train.epochs=6"), "--machine", "machine.json").out
            self.assertRegex(out, r"plan +[0-9.e+-]+ ms a step predicted, [0-9.e+-]+ measured \([+-]")
            plan = self.load(f"{run}/plan.json", "plan.schema.json")
            self.assertEqual(plan["ranks"], ranks)
            measured = plan["measured"]
            with open(self.path(f"{run}/metrics.jsonl"), encoding="utf-8") as file:
                epochs = [json.loads(line) for line in file]
            self.assertEqual(measured["steps"], plan["predicted"]["epoch_steps"])
            later = sorted(epoch["epoch_seconds"] for epoch in epochs[1:])
            self.assertAlmostEqual(measured["step_seconds"], later[len(later) // 2] / measured["steps"])
            self.assertLess(measured["forward"] + measured["backward"], measured["step_seconds"])
        out = self.succeed(1, "plan", "--check", "run1", "run2").out
        self.assertRegex(out, r"run1 +1 +[0-9]+ +[0-9.]+ +[0-9.]+ +-?[0-9.]+ ")
        self.assertRegex(out, r"2 runs: mean error [0-9.]+ %, worst [0-9.]+ %")

    def test_candidates(self):
        self.succeed(2, "plan", "windows.toml", "--machine", "machine.json", "--candidates", "-o", "candidates.json")
        with open(self.path("candidates.json"), encoding="utf-8") as file:
            candidates = json.load(file)["candidates"]
        self.assertEqual([(c["row_blocks"], c["time_groups"], c["recompute"]) for c in candidates],
                         [(2, 1, "none"), (2, 1, "cell"), (2, 1, "step"), (1, 2, "none"), (1, 2, "cell"), (1, 2, "step")])
        fitting = [c for c in candidates if not c["refused"]]
        best = min(fitting, key=lambda c: c["predicted"]["epoch_seconds"])
        self.assertEqual([c for c in candidates if c["fastest"]], [best])
        keeping = {c["recompute"]: c["predicted"]["memory_bytes"] for c in candidates if c["time_groups"] == 1}
        self.assertGreater(keeping["none"], keeping["cell"])
        self.succeed(2, "plan", "stnn.toml", "--machine", "machine.json", "--candidates", "-o", "candidates.json")
        with open(self.path("candidates.json"), encoding="utf-8") as file:
            self.assertEqual([c["time_groups"] for c in json.load(file)["candidates"]], [1, 2])
        # A machine with less memory than the training needs.
        small = self.load("machine.json", "machine.schema.json")
        small["memory_bytes"] = 1e6
        self.write("small.json", json.dumps(small))
        out = self.succeed(1, "plan", "stnn.toml", "--machine", "small.json", "--candidates").out
        self.assertRegex(out, r"needs [0-9.]+ [KMG]iB of a host, which has .*\nnone of them fits\n")
        out = self.succeed(2, "train", "windows.toml", "--run", "auto", "--set", "train.epochs=1", "--machine", "machine.json",
                           "--plan", "auto").out
        self.assertIn(f"plan      fastest of 6 candidates: {', '.join(best['settings'])}\n", out)
        with open(self.path("auto/config.toml"), encoding="utf-8") as file:
            self.assertRegex(file.read(), f"time_groups = {best['time_groups']}\\b")
        self.refuse(2, ["train", "windows.toml", "--run", "none", "--plan", "auto"], "--plan auto needs --machine")
        self.refuse(1, ["train", "stnn.toml", "--run", "none", "--plan", "auto", "--machine", "small.json"],
                    "--plan auto: no candidate fits; the first: needs ")

    def test_bad_input(self):
        self.refuse(2, ["plan", "stnn.toml", "--machine", "none.json"], "none.json: cannot be read; 'rossby calibrate")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "stnn.toml"], "stnn.toml: not JSON")
        self.write("old.json", '{"format": 0}')
        self.refuse(1, ["plan", "stnn.toml", "--machine", "old.json"], "old.json: format 0, this program reads 1")
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "model.precision=double"],
                    "was not measured in double")
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "parallel.threads=3"],
                    "was not measured in float with 3 threads")
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "parallel.device=cuda"],
                    "parallel.device")
        self.refuse(1, ["plan", "--check", "nowhere"], "nowhere/plan.json: cannot be read")
        self.refuse(2, ["calibrate", "-o", "no/such/machine.json", "--quick"], "no/such/machine.json")
        self.refuse(1, ["calibrate", "-o", "stnn.toml", "--quick"], "stnn.toml: not JSON")
        other = self.load("machine.json", "machine.schema.json")
        other["processor"] = "another"
        self.write("other.json", json.dumps(other))
        self.refuse(2, ["calibrate", "-o", "other.json", "--quick"], "measured on different machines: another")
        with open(self.path("other.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["processor"], "another", "what was there is still there")


if __name__ == "__main__":
    support.main()
