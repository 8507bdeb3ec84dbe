"""rossby calibrate and rossby plan: measurements of a machine, predictions from them, and checks of predictions."""

import json
import os
import subprocess

import support
from plan_runs import PlanRuns
from sensors import sensors
from test_windows import GRAPH_WAVENET


class Plan(PlanRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # All other nodes act on the first node only.
        cls.netcdf("star.nc", sensors(30, 60, ", ".join(map(str, range(1, 60))), ", ".join("0" for _ in range(59)),
                                      ", ".join("1" for _ in range(59))))
        for ranks in (1, 2):
            cls.said = cls.calibrate(ranks, "machine.json")

    def test_calibrate(self):
        machine = self.load("machine.json", "machine.schema.json")
        self.assertEqual({op["ranks"] for op in machine["ops"]}, {1, 2}, "one run is added to the other")
        self.assertEqual({sample["ranks"] for sample in machine["messages"]}, {2})
        self.assertEqual({sample["kind"] for sample in machine["messages"]},
                         {"gather", "scatter_add", "allgather", "reduce_scatter", "allreduce", "looked_at_sum"})
        self.assertEqual({rate["kind"] for rate in machine["rates"]}, {"stream", "gemm", "disk_write", "disk_read", "file_write", "file_read"})
        names = {op["op"] for op in machine["ops"]}
        for name in ("relate_sparse", "relate_sparse_learned", "relate_dense_learned", "diffusion", "gru_output", "embed",
                     "catch_up", "clear_gradients", "optimiser", "reduction", "scores", "filter", "gather", "next_columns"):
            self.assertIn(name, names)
        for op in machine["ops"]:
            self.assertLess(op["seconds"], 1)
        self.assertEqual({s["ranks"] for s in machine["stragglers"]}, {2}, "one rank waits for nobody")
        for straggler in machine["stragglers"]:
            self.assertGreaterEqual(straggler["factor"], 1)
            self.assertGreater(straggler["seconds"], 0)

    def test_calibrate_says_how_busy_the_machine_was(self):
        self.assertRegex(self.said, r"rounds +of a training differ by [0-9]+ % \(median\)")

    def test_messages_alone(self):
        self.succeed(1, "calibrate", "-o", "only.json", "--quick", "--only", "rates")
        self.succeed(3, "calibrate", "-o", "only.json", "--quick", "--only", "messages")
        machine = self.load("only.json", "machine.schema.json")
        self.assertEqual((machine["ops"], {rate["ranks"] for rate in machine["rates"]}), ([], {1}))
        self.assertEqual({sample["ranks"] for sample in machine["messages"]}, {2, 3})
        self.refuse(1, ["plan", "stnn.toml", "--machine", "only.json"], "was not measured in float")
        self.refuse(1, ["calibrate", "-o", "only.json", "--only", "all"], "--only", code=2)

    def test_batches_and_gains_of_candidates(self):
        """Without slabs, a batch has all training steps; gains are relative to the fewest ranks."""
        found = []
        for slab in ("0", "1000"):
            self.succeed(1, "plan", "stnn.toml", "--machine", "machine.json", "--ranks", "1,2", "--set", f"train.slab_steps={slab}",
                         "--target-batch", "15", "--tolerance", "0.9", "-o", "gains.json")
            found.append(self.load("gains.json", "candidates.schema.json")["candidates"])
        self.assertEqual(*([c["batch"] for c in candidates] for candidates in found))
        self.assertGreater(found[0][0]["batch"], 1)
        one, two = found[0][0], next(c for c in found[0] if c["ranks"] == 2 and "predicted" in c)
        self.assertEqual((one["speed_up"], one["efficiency"]), (1, 1))
        self.assertAlmostEqual(two["speed_up"], one["training_seconds"] / two["training_seconds"], 6)
        self.assertAlmostEqual(two["efficiency"], two["speed_up"] / 2, 9)

    def test_validations_choose_a_grid(self):
        """Time groups exchange no rows in a step, but one group validates while the other waits."""
        slow = self.load("machine.json", "machine.schema.json")
        for sample in slow["messages"]:
            sample["seconds"] *= 100 if sample["kind"] in ("gather", "scatter_add") else 1
        for op in slow["ops"]:
            if op["op"] == "scores":  # a busy machine may measure otherwise
                op["seconds"] = 1e-4 * op["flops"]
        self.write("slow.json", json.dumps(slow))
        for epochs, every, groups in (("1", "1", 1), ("1000000", "1000000", 2)):
            self.succeed(1, "plan", "stnn.toml", "--machine", "slow.json", "--ranks", "2", "-o", "grids.json", "--set",
                         f"train.epochs={epochs}", "--set", f"validation.every={every}", "--set", "parallel.threads=1")
            candidates = self.load("grids.json", "candidates.schema.json")["candidates"]
            self.assertEqual([c["time_groups"] for c in candidates if c["fastest"]], [groups], candidates)

    def test_a_training_of_ones_own(self):
        before = self.load("machine.json", "machine.schema.json")
        self.succeed(1, "calibrate", "-o", "own.json", "--quick", "--config", "windows.toml")
        own = self.load("own.json", "machine.schema.json")
        self.assertGreater(len(own["ops"]), len([op for op in before["ops"] if op["ranks"] == 1]))
        # A training with measurements of its own ops is near them.
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
                                                         "pipeline", "transfer", "straggler"))
                self.assertAlmostEqual(parts, predicted["step_seconds"])
                low, high = predicted["step_interval"]
                self.assertAlmostEqual(low * high / predicted["step_seconds"]**2, 1)
                self.assertTrue(0 < low < 0.95 * high)
                self.assertTrue(plan["training_interval"][0] < plan["training_seconds"] < plan["training_interval"][1])
                self.assertEqual(predicted["messages"] > 0, ranks > 1)
                self.assertEqual(predicted["unmeasured"], [])
                messages = sum(op["messages"] * op["calls"] for op in plan["ops"] if op["op"] != "reduction")
                self.assertEqual(messages > 0, ranks > 1)
        self.succeed(1, "plan", "stnn.toml", "--machine", "machine.json", "--set", "split.validation=0", "--set", "schedule.metric=train",
                     "-o", "plan.json")
        plan = self.load("plan.json", "plan.schema.json")
        self.assertEqual((plan["validations"], plan["predicted"]["validation_seconds"]), (0, 0))
        out = self.succeed(1, "plan", "stnn.toml", "--machine", "machine.json").out
        self.assertRegex(out, r"stnn: 9 nodes, 1 ranks on 1 host, [0-9]+ threads? each")
        self.assertRegex(out, r"  step +[0-9.]+ ms +100.0 %")

    def test_train_and_check(self):
        for ranks in (1, 2):
            run = f"run{ranks}"
            out = self.succeed(ranks, *self.arguments(run, "train.epochs=6"), "--machine", "machine.json").out
            self.assertRegex(out, r"plan +[0-9.e+-]+ ms a step predicted, [0-9.e+-]+ measured \([+-]")
            between = r" \(\S+ to \S+\)"
            self.assertRegex(out, rf"plan +[0-9.e+-]+ ms a step{between}, \S+{between} an epoch of [0-9]+ steps?, \S+{between} a validation, "
                             rf"\S+{between} the training of 6 epochs, ")
            self.assertRegex(out, r"plan +[0-9.e+-]+ ms a validation predicted, [0-9.e+-]+ measured \([+-]")
            plan = self.load(f"{run}/plan.json", "plan.schema.json")
            self.assertEqual(plan["ranks"], ranks)
            measured = plan["measured"]
            with open(self.path(f"{run}/metrics.jsonl"), encoding="utf-8") as file:
                epochs = [json.loads(line) for line in file]
            self.assertEqual(measured["steps"], plan["predicted"]["epoch_steps"])
            later = sorted(epoch["epoch_seconds"] for epoch in epochs[1:])
            self.assertAlmostEqual(measured["step_seconds"], later[(len(later) - 1) // 2] / measured["steps"])
            self.assertLess(measured["forward"] + measured["backward"], measured["step_seconds"])
            self.assertAlmostEqual(measured["validation_seconds"], sorted(epoch["validation_seconds"] for epoch in epochs)[2])
            predicted = plan["predicted"]
            self.assertGreater(predicted["validation_seconds"], 0)
            self.assertEqual((plan["epochs"], plan["validations"]), (6, 6))
            self.assertAlmostEqual(plan["training_seconds"], 6 * (predicted["epoch_seconds"] + predicted["validation_seconds"]))
        out = self.succeed(1, "plan", "--check", "run1", "run2").out
        self.assertRegex(out, r"run1 +1 +[0-9]+ +[0-9.]+ +[0-9.]+ +-?[0-9.]+ ")
        self.assertEqual([line.split()[-1] for line in out.splitlines()[1:3]], ["exact", "exact"], "messages and bytes")
        self.assertRegex(out, r"2 runs: mean error [0-9.]+ %, worst [0-9.]+ %; in the expected interval [0-2]\n")
        self.assertRegex(out, r"\nvalidations of 2 runs: mean error [0-9.]+ %, worst [0-9.]+ %\n")
        # A run that goes on with other ranks gets a plan for them, which does not cover earlier epochs.
        self.succeed(1, *self.arguments("moved", "train.epochs=3"), "--machine", "machine.json")
        self.succeed(2, *self.arguments("moved", "train.epochs=6"), "--machine", "machine.json")
        moved = self.succeed(1, "plan", "--check", "moved").out.splitlines()
        self.assertEqual(moved[1].split()[-1], "exact")
        never = ["--set", "relation.self=true", "--set", "relation.self_start=1"]
        self.refuse(1, ["plan", "stnn.toml", "--machine", "machine.json", *never], "relation.self_start = 1: .* never change")
        # Starting a finished run again measures nothing and keeps its plan.
        before = self.load("run1/plan.json", "plan.schema.json")
        again = self.succeed(1, *self.arguments("run1", "train.epochs=6"), "--machine", "machine.json").out
        self.assertIn("nothing is left to do", again)
        self.assertEqual(self.load("run1/plan.json", "plan.schema.json"), before)
        # The same if only the final state was missing, on ranks that have trained nothing of the run.
        self.succeed(1, *self.arguments("stale", "train.epochs=3"))
        os.remove(self.path("stale/checkpoints/state.h5"))
        again = self.succeed(2, *self.arguments("stale", "train.epochs=3"), "--machine", "machine.json").out
        self.assertNotIn("measured", again)
        self.assertNotIn("measured", self.load("stale/plan.json", "plan.schema.json"))
        for name in ("config.toml", "plan.json"):
            os.remove(self.path(f"stale/{name}"))
        for machine in ([], ["--machine", "machine.json"]):
            self.assertIn("nothing is left to do", self.succeed(1, *self.arguments("stale", "train.epochs=3"), *machine).out)
        os.makedirs(self.path("begun"), exist_ok=True)
        result = self.run_ranks(1, "plan", "--check", "run1", "begun", "nowhere", "run2")
        self.assertEqual(result.codes, [1])
        self.assertRegex(result.out, "\n2 runs: mean error")
        self.assertRegex(result.err, r"begun/plan.json: .*; nowhere/plan.json: this file is missing.* \(the table has the other runs\)\n$")
        out = self.succeed(1, "plan", "--check", "run1", "run2", "--regions").out.splitlines()[1:]
        regions = ["computing", "chunks", "optimiser", "waiting", "other"]
        self.assertEqual([line[28:].split()[0] for line in out], regions * 2)
        for run, lines in (("run1", out[:5]), ("run2", out[5:10])):
            measured, predicted = (self.load(run + "/plan.json", "plan.schema.json")[kind] for kind in ("measured", "predicted"))
            parts = [[float(figure) for figure in line[40:].split()[:2]] for line in lines]
            # If another program stops a rank between two epochs, the others wait for it before it begins to measure the next
            # one: their regions, or their waiting, are then longer than a step.
            regions = sum(measured[region] for region in ("forward", "backward", "reduction", "optimiser"))
            inside = measured["optimiser"] + measured["waiting"] + measured["transfer"]
            whole = max(regions, inside) + max(0, measured["step_seconds"] - regions)
            self.assertAlmostEqual(sum(part[0] for part in parts), 1e3 * whole, delta=0.02)
            self.assertAlmostEqual(sum(part[1] for part in parts), 1e3 * predicted["step_seconds"], delta=0.02)
            self.assertAlmostEqual(parts[3][0], 1e3 * measured["waiting"], delta=1e-3)

    def test_streamed(self):
        """Chunks of relations in files: plans predict their bytes exactly, and the waits if there are too many."""
        dense = ["relation.graph=none", "relation.discover=dense", "train.epochs=4", "split.validation=0", "schedule.metric=train", "train.slab_steps=4"]
        chunks = ["relation.memory=streamed", f"relation.stream_folder={self.path('.')}", f"relation.chunk_mib={2 * 9 * 4 / 2**20}"]
        for run, ranks, kept, momentum, *settings in (
                ("all", 1, 9, "0", "parallel.threads=1"), ("two", 1, 2, "0"), ("three", 1, 3, "0.9"), ("halves", 2, 2, "0.9"),
                ("joint", 1, 2, "0", "train.joint=true"), ("bf16", 1, 2, "0.9", "relation.precision=bf16")):
            with self.subTest(run):
                word = 2 if run == "bf16" else 4
                room = f"relation.stream_gib={(kept * 2 * (3 if momentum != '0' else 2) * 9 * 4 + 1) / 2**30}"
                self.succeed(ranks, *self.arguments(run, *dense, *chunks, room, f"optimiser.beta1={momentum}", *settings),
                             "--machine", "machine.json")
                plan = self.load(f"{run}/plan.json", "plan.schema.json")
                self.assertEqual(plan["predicted"]["unmeasured"], ["relate_dense_learned_bf16_streamed"] if run == "bf16" else [])
                with open(self.path(f"{run}/metrics.jsonl"), encoding="utf-8") as file:
                    epochs = [json.loads(line) for line in file]
                steps = plan["predicted"]["epoch_steps"]
                told = {way: round(steps * sum(op[f"{way}_bytes"] * op["calls"] for op in plan["ops"])) for way in ("brought", "home")}
                if run == "all":  # everything stays in memory
                    self.assertEqual(told, {"brought": 0, "home": 0})
                    self.assertNotIn("streamed_bytes", epochs[-1])
                    continue
                self.assertGreater(told["home"], 9 * 9 * word // 2)
                # With two ranks, the second has room for its four rows.
                self.assertEqual([epoch["streamed_bytes"] for epoch in epochs[1:]], [told] * 3)
                self.assertGreater(plan["measured"]["transfer"], 0)
        # A machine with slow files, and a machine file from before files were measured.
        machine = self.load("machine.json", "machine.schema.json")
        for rate in machine["rates"]:
            if rate["kind"].startswith("file_"):
                rate["rate"] = 1e3
        self.write("slow.json", json.dumps(machine))
        streamed = [f"--set={setting}" for setting in dense + chunks + [room]]
        self.succeed(1, "plan", "stnn.toml", *streamed, "--machine", "slow.json", "-o", "slow_plan.json")
        out = self.succeed(1, "plan", "stnn.toml", *streamed, "--machine", "slow.json").out
        self.assertRegex(out, r"  waits for chunks +[0-9.]+ ms +(9[0-9.]+|100.0) %")
        plan = self.load("slow_plan.json", "plan.schema.json")
        moved = sum((op["brought_bytes"] + op["home_bytes"]) * op["calls"] for op in plan["ops"])
        self.assertAlmostEqual(plan["predicted"]["transfer"] / (moved / 1e3), 1, delta=0.01)
        # A validation writes nothing, whatever the last step left. Like a step, it reads from the disk if the files and
        # the rank's arrays do not fit into memory together.
        validated = [word.replace("split.validation=0", "split.validation=8") for word in streamed]

        def validation(memory_bytes=None, **slow):
            asked = self.load("machine.json", "machine.schema.json")
            asked["memory_bytes"] = memory_bytes or asked["memory_bytes"]
            for rate in asked["rates"]:
                rate["rate"] = slow.get(rate["kind"], rate["rate"])
            self.write("asked.json", json.dumps(asked))
            self.succeed(1, "plan", "stnn.toml", *validated, "--machine", "asked.json", "-o", "asked_plan.json")
            return self.load("asked_plan.json", "plan.schema.json")["predicted"]

        fast, writes = validation(), validation(file_write=1e3)
        self.assertGreater(writes["step_seconds"], 10 * fast["step_seconds"])
        self.assertAlmostEqual(writes["validation_seconds"], fast["validation_seconds"], delta=1e-3 * fast["validation_seconds"])
        reads = validation(fast["memory_bytes"] + 100, disk_read=1e3)
        for kind in ("step_seconds", "validation_seconds"):
            self.assertGreater(reads[kind], 10 * fast[kind])
        machine["rates"] = [rate for rate in machine["rates"] if not rate["kind"].startswith("file_")]
        self.write("old.json", json.dumps(machine))
        out = self.succeed(1, "plan", "stnn.toml", *streamed, "--machine", "old.json").out
        self.assertRegex(out, "never measured, .*chunks of streamed relations")
        # Both are candidates unless the user has chosen.
        dense = [f"--set={setting}" for setting in dense]
        found = self.candidates(1, "stnn.toml", *dense, "--set", room, "--set", chunks[2], "--candidates",
                                machine="slow.json")["candidates"]
        self.assertEqual([c["settings"][-1] for c in found], ["relation.memory=resident", "relation.memory=streamed"])
        self.assertGreater(found[1]["predicted"]["transfer"], 0)
        self.assertEqual([c["fastest"] for c in found], [True, False])
        found = self.candidates(1, "stnn.toml", *dense, "--candidates", "--set", "optimiser.name=sgd")["candidates"]
        self.assertEqual(len(found), 1)

    def test_messages_and_bytes(self):
        """Plans predict messages exactly, epoch by epoch: batches, grids, steps of other groups, inputs of
        decoders."""
        source, target = (", ".join(str((i + k) % 9) for i in range(9)) for k in (0, 1))
        self.netcdf("holes.nc", sensors(30, 9, source, target, ", ".join("1" * 9), holes=[(t, i) for t in range(3, 9) for i in (1, 4)]))
        everywhere = ("window.sampling=global", "window.batch=16")
        fed = "model.sampling_decay=6"
        runs = []
        for config, ranks, *settings in (("windows.toml", 3), ("windows.toml", 3, fed),
                                         ("windows.toml", 2, "parallel.time_groups=2"),
                                         ("windows.toml", 2, "parallel.time_groups=2", fed, *everywhere),
                                         ("windows.toml", 4, "parallel.time_groups=2", "window.micro_batches=3", *everywhere),
                                         ("windows.toml", 3, "parallel.time_groups=3", "window.sampling=global"),
                                         ("windows.toml", 2, "parallel.stages=2", "window.micro_batches=2", fed),
                                         ("windows.toml", 4, "parallel.stages=2", "parallel.stage_layers=[2, 2]"),
                                         ("windows.toml", 4, "parallel.stages=2", "window.micro_batches=2", *GRAPH_WAVENET),
                                         ("windows.toml", 4, "parallel.time_groups=2", "window.sampling=blocked",
                                          "window.lanes=2", "window.blocks=3", fed),
                                         ("windows.toml", 4, "train.recompute=cell"),
                                         ("stnn.toml", 4, "parallel.time_groups=2", "relation.discover=dense",
                                          "train.slab_steps=12"),
                                         ("stnn.toml", 2, "train.sampling=pairs"),
                                         ("stnn.toml", 2, "train.sampling=pairs", "data.file=holes.nc"),
                                         ("stnn.toml", 3, "relation.mode=refine", "relation.discover=low_rank")):
            runs.append(f"sent{len(runs)}")
            words = [word for s in ("train.epochs=3", "model.sampling_decay=0", *settings) for word in ("--set", s)]
            self.succeed(ranks, "train", config, "--run", runs[-1], *words, "--machine", "machine.json")
            plan = self.load(runs[-1] + "/plan.json", "plan.schema.json")
            self.assertEqual(plan["predicted"]["sent"]["ranks"], ranks)
            self.assertGreater(plan["measured"]["sent_bytes"], 0)
            told, sent = plan["predicted"]["sent"]["epochs"], plan["measured"]["sent_epochs"]
            self.assertEqual([epoch[1:] for epoch in told], [epoch[1:] for epoch in sent], (config, settings))
            self.assertEqual([epoch[0] for epoch in sent], [0, 1, 2])
        out = self.succeed(1, "plan", "--check", *runs).out
        self.assertEqual([line.split()[-1] for line in out.splitlines()[1:len(runs) + 1]], ["exact"] * len(runs), out)
        # The test would show little if all epochs were alike.
        for run, epochs in (("sent1", 2), ("sent3", 2), ("sent9", 2)):
            told = self.load(run + "/plan.json", "plan.schema.json")["predicted"]["sent"]["epochs"]
            self.assertGreaterEqual(len(set(map(tuple, told))), epochs, run)

    def test_memory_of_a_cut_graph(self):
        """Library memory for cutting a graph counts if several ranks cut one, whether these ranks exist here or
        not."""
        machine = self.load("machine.json", "machine.schema.json")
        self.write("cut.json", json.dumps(machine | {"cut_bytes": machine["cut_bytes"] + 1e9}))
        for partition, more in (("graph", 1e9), ("blocks", 0)):
            for ranks, options in ((2, ()), (1, ("--ranks", "2"))):
                told = []
                for file in ("machine.json", "cut.json"):
                    self.succeed(ranks, "plan", "windows.toml", "--machine", file, "-o", "memory.json", "--set",
                                 f"parallel.partition={partition}", *options)
                    with open(self.path("memory.json"), encoding="utf-8") as written:
                        plan = json.load(written)
                    told.append((plan["candidates"][0] if "candidates" in plan else plan)["predicted"]["memory_bytes"])
                self.assertEqual(told[1] - told[0], more, msg=f"{partition} {options}")

    def candidates(self, ranks, *arguments, machine="machine.json"):
        self.succeed(ranks, "plan", *arguments, "--machine", machine, "-o", "candidates.json")
        return self.load("candidates.json", "candidates.schema.json")

    def test_candidates(self):
        candidates = self.candidates(2, "windows.toml", "--candidates")["candidates"]
        tried = [(c["row_blocks"], c["stages"], c["time_groups"], c["settings"][-1].removeprefix("train.recompute="))
                 for c in candidates]
        self.assertEqual(tried, [(2, 1, 1, "none"), (2, 1, 1, "cell"), (2, 1, 1, "step"), (1, 2, 1, "none"), (1, 2, 1, "cell"),
                                 (1, 2, 1, "none"), (1, 2, 1, "cell"), (1, 1, 2, "none"), (1, 1, 2, "cell"), (1, 1, 2, "step")])
        # Cells of encoder and decoder; the encoder's come first.
        self.assertEqual([c["settings"][2] for c in candidates if c["stages"] == 2 and "none" in c["settings"][-1]],
                         ["parallel.stage_layers=[1,1]", "parallel.stage_layers=[2,2]"])
        # Micro-batches would change a model with batch normalisation, so they are no candidates.
        normed = self.candidates(2, "windows.toml", "--candidates", *[word for s in GRAPH_WAVENET for word in ("--set", s)])["candidates"]
        for jobs, micro_batches in ((candidates, {"window.micro_batches=4"}), (normed, set())):
            deep = [c["settings"] for c in jobs if c["stages"] == 2]
            self.assertGreater(len(deep), 1)
            self.assertEqual({s for settings in deep for s in settings if "micro" in s}, micro_batches)
        fitting = [c for c in candidates if not c["refused"]]
        best = min(fitting, key=lambda c: c["training_seconds"])
        self.assertEqual([c for c in candidates if c["fastest"]], [best])
        keeping = {c["settings"][-1]: c["predicted"]["memory_bytes"] for c in candidates if c["row_blocks"] == 2}
        self.assertGreater(keeping["train.recompute=none"], keeping["train.recompute=cell"])
        more = self.candidates(2, "stnn.toml", "--candidates")["candidates"]
        self.assertEqual([c["time_groups"] for c in more], [1, 2])
        # Nothing to train: an epoch is compared.
        none = self.candidates(2, "stnn.toml", "--candidates", "--set", "train.epochs=0")["candidates"]
        epochs = [c["predicted"]["epoch_seconds"] for c in none]
        self.assertEqual([c["fastest"] for c in none], [epoch == min(epochs) for epoch in epochs])
        self.assertEqual([c["training_seconds"] for c in none], [0, 0])
        self.assertGreater(none[0]["speed_up"], 0)
        # A machine with less memory than the training needs.
        small = self.load("machine.json", "machine.schema.json")
        small["memory_bytes"] = 1e6
        self.write("small.json", json.dumps(small))
        out = self.succeed(1, "plan", "stnn.toml", "--machine", "small.json", "--candidates").out
        self.assertRegex(out, r"needs [0-9.]+ [KMG]iB of memory on a host, which has .*\nno candidate fits: the last column has the reasons\n")
        out = self.succeed(2, "train", "windows.toml", "--run", "auto", "--set", "train.epochs=1", "--machine", "machine.json",
                           "--plan", "auto").out
        self.assertIn(f"plan      fastest of 10 candidates: {', '.join(best['settings'])}\n", out)
        with open(self.path("auto/config.toml"), encoding="utf-8") as file:
            self.assertRegex(file.read(), f"time_groups = {best['time_groups']}\\b")
        self.refuse(2, ["train", "windows.toml", "--run", "none", "--plan", "auto"], "--plan auto needs a machine file")
        self.refuse(1, ["train", "stnn.toml", "--run", "none", "--plan", "auto", "--machine", "small.json"],
                    "--plan auto: no candidate fits. The first candidate is refused: needs ")

    def test_jobs_that_are_not_there(self):
        """One process plans a job like the ranks of that job do."""
        configurations = (("stnn.toml",), ("stnn.toml", "relation.discover=dense", "train.slab_steps=12"),
                          ("stnn.toml", "parallel.partition=graph", "relation.mode=refine"),
                          ("stnn.toml", "data.file=star.nc", "parallel.partition=weighted", "parallel.entry_cost=2"),
                          ("windows.toml",), ("windows.toml", "window.sampling=blocked", "parallel.partition=graph"),
                          ("windows.toml", "window.sampling=global"),
                          ("windows.toml", "model.name=graph_wavenet", "model.layers=1", "model.units=64",
                           "model.sampling_decay=0", "window.inputs=3", "train.recompute=none"))
        for number, (config, *settings) in enumerate(configurations):
            sets = [word for s in ("parallel.threads=1", *settings) for word in ("--set", s)]
            # Daily 3 and 4 ranks in turns, nightly all counts.
            for ranks in (2, 3, 4) if support.long_tests else (3 + number % 2,):
                jobs = self.candidates(1, config, *sets, "--ranks", str(ranks), "--ranks-per-host", str(ranks))["candidates"]
                for job in jobs:
                    with self.subTest(config=config, settings=settings, ranks=ranks, groups=job["time_groups"]):
                        self.assertEqual(job["ranks"], ranks)
                        self.assertEqual(job["row_blocks"] * job["stages"] * job["time_groups"], ranks)
                        words = ["plan", config, *sets, *[word for s in job["settings"] for word in ("--set", s)],
                                 "--machine", "machine.json"]
                        if job["refused"]:
                            self.refuse(ranks, words, job["refused"].split(";")[0][:60].replace("(", "\\("))
                            continue
                        if "train.recompute=step" in job["settings"]:
                            continue
                        self.succeed(ranks, *words, "-o", "real.json")
                        real, predicted = self.load("real.json", "plan.schema.json")["predicted"], job["predicted"]
                        self.assertEqual(sorted(set(real["unmeasured"]) - set(predicted["unmeasured"])), [])
                        for prediction in (real, predicted):
                            del prediction["unmeasured"]
                            for name in [name for name in prediction if name.endswith("_interval")]:
                                prediction[f"{name}_low"], prediction[f"{name}_high"] = prediction.pop(name)
                            sent = prediction.pop("sent")
                            prediction.update(messages_sent=sent["messages"], bytes_sent=sent["bytes"], counted=sent["ranks"])
                        self.assertEqual(set(real), set(predicted))
                        for name, value in real.items():
                            self.assertAlmostEqual(predicted[name], value, delta=1e-9 * abs(value), msg=name)
                        self.assertGreater(real["bytes_sent"], 0)

    def test_many_ranks(self):
        out = self.succeed(1, "plan", "windows.toml", "--machine", "machine.json", "--set", "parallel.threads=1", "--ranks",
                           "1..64,6", "--set", "train.recompute=none", "--ranks-per-host", "2").out
        rows = [line.split() for line in out.split("fastest:")[0].splitlines() if " ms" not in line]
        ranks = [int(row[1] if row[0] == "*" else row[0]) for row in rows]
        self.assertEqual(sorted(set(ranks)), [1, 2, 4, 6, 8, 16, 32, 64])
        self.assertRegex(out, r"fastest: [0-9]+ ranks?( --set [a-z_.]+=[][0-9,]+)*\n")
        refused = self.candidates(1, "windows.toml", "--ranks", "64", "--set", "parallel.threads=1")["candidates"]
        self.assertEqual([c["refused"] != "" for c in refused if c["time_groups"] == 64], [True] * 3)  # no ranks for stages
        # There are fewer nodes than ranks: most ranks own nothing, and still take part.
        alone = [c for c in refused if c["time_groups"] == 1]
        self.assertEqual([c["refused"] for c in alone],
                         [f"{c['row_blocks']} row blocks for only 9 nodes" if c["row_blocks"] > 9 else "" for c in alone])
        self.assertEqual({c["stages"] for c in alone}, {1, 2, 4})

    def test_what_was_never_measured(self):
        """A missing measurement is reported, and makes no candidate fast."""
        silent = self.load("machine.json", "machine.schema.json")
        silent["messages"], silent["stragglers"] = [], []
        self.write("silent.json", json.dumps(silent))
        rough = self.load("machine.json", "machine.schema.json")
        rough["ops"] = [op for op in rough["ops"] if op["op"] not in ("scores", "filter", "gather", "next_columns")]
        self.write("rough.json", json.dumps(rough))
        rough_plan = ["plan", "stnn.toml", "--set", "parallel.threads=1", "--machine", "rough.json"]
        self.assertRegex(self.succeed(1, *rough_plan).out, "\n  [0-9]+ % of the validation time are calls far from all")
        self.assertRegex(self.succeed(1, *rough_plan, "--ranks", "1,2").out,
                         "\n  [0-9]+ of the [0-9]+ candidates that fit, .*: (up to )?[0-9]+ % of the validation time are calls far from all")
        out = self.succeed(2, "plan", "stnn.toml", "--machine", "silent.json").out
        self.assertRegex(out, "never measured, counted as no time: .*between ranks.*on at least two ranks")
        self.succeed(2, "plan", "stnn.toml", "--machine", "silent.json", "-o", "silent_plan.json")
        self.assertIn("allreduce between ranks", self.load("silent_plan.json", "plan.schema.json")["predicted"]["left_out"])
        jobs = self.candidates(1, "stnn.toml", "--set", "parallel.threads=1", "--ranks", "1,2", machine="silent.json")["candidates"]
        self.assertEqual([bool(job["refused"]) for job in jobs], [job["ranks"] > 1 for job in jobs])
        self.assertEqual([job["ranks"] for job in jobs if job["fastest"]], [1])
        out = self.succeed(1, "plan", "stnn.toml", "--set", "parallel.threads=1", "--machine", "machine.json", "--ranks", "8",
                           "--ranks-per-host", "2").out
        self.assertRegex(out, r"fastest: 8 ranks.*\n  on 4 hosts of 2 ranks .*\n(.*\n)*.*never measured.*messages between hosts")
        # More row blocks than nodes; too little memory; nothing that GPUs could round.
        jobs = self.candidates(1, "stnn.toml", "--set", "parallel.threads=1", "--ranks", "1024")["candidates"]
        self.assertRegex([job for job in jobs if job["time_groups"] == 1][0]["refused"], "^1024 row blocks for only [0-9]+ nodes$")
        small = self.load("machine.json", "machine.schema.json")
        small["memory_bytes"] = 1e6
        self.write("little.json", json.dumps(small))
        self.assertRegex(self.succeed(1, "plan", "stnn.toml", "--machine", "little.json").out,
                         r"\n  does not fit: needs [0-9.]+ MiB of memory on a host, which has ")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "machine.json", "--what-if", "products=tf32"],
                    "only GPUs round the operands of products to TF32")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "machine.json", "--what-if", "products=bf16"],
                    "the machine was not measured in bf16")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "machine.json", "--ranks", ""], "--ranks", code=2)

    def test_layers_of_stages_that_are_set(self):
        # Rows have different costs: their times are fitted without stages.
        stages = ["--set", "data.file=star.nc", "--set", "parallel.stages=2", "--set", "parallel.stage_layers=[2, 2]"]
        for ranks, arguments in ((1, ["--ranks", "2"]), (2, ["--candidates"])):
            jobs = self.candidates(ranks, "windows.toml", *stages, *arguments)["candidates"]
            self.assertEqual({job["stages"] for job in jobs if not job["refused"]}, {2}, jobs)

    def test_a_start_that_comes_late_leaves_the_run_of_another(self):
        os.mkfifo(self.path("late.json"))
        process = subprocess.Popen([support.mpiexec, "-n", "1", support.rossby, "train", "stnn.toml", "--run", "taken", "--machine", "late.json"],
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        try:
            with open(self.path("late.json"), "w", encoding="utf-8") as late:  # when it has looked at the directory
                self.succeed(1, "train", "stnn.toml", "--run", "taken", "--set", "train.epochs=2")
                with open(self.path("machine.json"), encoding="utf-8") as machine:
                    late.write(machine.read())
            out, err = process.communicate(timeout=120)
        finally:
            support.kill_group(process)
        self.assertEqual(process.returncode, 1)
        self.assertIn("taken: another process has meanwhile trained a run in this directory", err)
        self.assertIn("not kept: late.json: not a regular file", out)  # a pipe would wait for a writer
        with open(self.path("taken/metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 2)

    def test_balance(self):
        """Rows and entries have the costs of the machine, if these differ between ranks."""
        arguments = ["--set", "parallel.threads=1", "--set", "data.file=star.nc"]
        # A quick calibration on a busy machine may miss the time of so few entries, and slow messages may outweigh it.
        steady = self.load("machine.json", "machine.schema.json")
        for op in steady["ops"]:
            op["seconds"] = 1e-7 + 1e-9 * op["flops"] + 1e-10 * op["bytes"]
        for message in steady["messages"]:
            message["seconds"] = 1e-6 + 1e-9 * message["bytes"]
        with open(self.path("steady.json"), "w", encoding="utf-8") as file:
            json.dump(steady, file)
        jobs = self.candidates(1, "stnn.toml", *arguments, "--ranks", "8", "--ranks-per-host", "2", "--vary",
                               "parallel.partition=blocks,weighted,graph", machine="steady.json")["candidates"]
        of_kind = {job["settings"][1]: job for job in jobs if job["time_groups"] == 1}
        for kind, job in of_kind.items():
            self.assertGreaterEqual(job["predicted"]["imbalance"], 1)
            # Equal rows stay equal, whatever entries cost.
            if kind == "parallel.partition=blocks":
                self.assertNotIn("entry_cost", "".join(job["settings"]))
        self.assertRegex(of_kind["parallel.partition=weighted"]["settings"][-1], "^parallel.entry_cost=[0-9]")
        self.assertGreater(of_kind["parallel.partition=blocks"]["predicted"]["imbalance"],
                           1.01 * of_kind["parallel.partition=weighted"]["predicted"]["imbalance"])
        # Also on the ranks themselves; never if all rows have equally many entries or the user has decided.
        here = self.candidates(2, "stnn.toml", *arguments, "--candidates", machine="steady.json")["candidates"]
        self.assertGreaterEqual(here[0]["predicted"]["imbalance"], 1)
        # The faster of balanced and unbalanced.
        self.succeed(2, "plan", "stnn.toml", *arguments, "--machine", "steady.json", "-o", "as_it_is.json")
        self.assertGreaterEqual(self.load("as_it_is.json", "plan.schema.json")["predicted"]["step_seconds"],
                                here[0]["predicted"]["step_seconds"])
        for words in (["stnn.toml", "--set", "parallel.threads=1"],
                      ["stnn.toml", *arguments, "--set", "parallel.entry_cost=1"],
                      ["stnn.toml", *arguments, "--set", "parallel.partition=blocks"],
                      ["stnn.toml", *arguments, "--set", "relation.discover=dense"]):
            for job in self.candidates(1, *words, "--ranks", "2")["candidates"]:
                self.assertNotIn("entry_cost", "".join(job["settings"]))
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "relation.graph=none", "--set",
                        "parallel.partition=weighted", "--set", "relation.discover=low_rank"],
                    'partition = "weighted" needs relations')

    def test_vary_and_target(self):
        answer = self.candidates(1, "windows.toml", "--set", "parallel.threads=1", "--set", "train.recompute=none", "--ranks",
                                 "1,2", "--vary", "window.batch=2,4,8", "--target-batch", "4", "--tolerance", "0.6")
        by_batch = {}
        for candidate in answer["candidates"]:
            by_batch.setdefault(candidate["batch"], []).append(candidate["refused"])
        self.assertEqual(sorted(by_batch), [2, 4, 8])
        self.assertEqual([by_batch[2], by_batch[4]], [[""] * 5] * 2)
        self.assertEqual(set(by_batch[8]), {"a batch of 8 is not within 60 % of --target-batch 4"})
        # The ranks themselves give the same answer.
        self.assertEqual(self.candidates(2, "windows.toml", "--set", "parallel.threads=1", "--set", "train.recompute=none",
                                         "--vary", "window.batch=2,8", "--target-batch", "4", "--tolerance",
                                         "0.6")["candidates"][1]["refused"], "a batch of 8 is not within 60 % of --target-batch 4")

        # Commas inside lists and strings do not separate values.
        answer = self.candidates(1, "stnn.toml", "--set", "parallel.threads=1", "--ranks", "1", "--vary", "relation.hops=[1],[1, 2]",
                                 "--vary", 'data.variables=["v"],["v",]')
        self.assertEqual([[s for s in candidate["settings"] if s.startswith(("relation.hops", "data."))] for candidate in answer["candidates"]],
                         [[f"relation.hops={hops}", f"data.variables={names}"] for hops in ("[1]", "[1, 2]") for names in ('["v"]', '["v",]')])

    def test_what_if(self):
        arguments = ["stnn.toml", "--set", "parallel.threads=1", "--what-if", "memory=1000,compute=1000x,network=2x,latency=2x"]
        self.succeed(2, "plan", *arguments, "--machine", "machine.json", "-o", "what.json")
        plan = self.load("what.json", "plan.schema.json")
        self.assertGreater(plan["what_if"]["speed_up"], 1)
        self.assertLess(plan["what_if"]["plan"]["predicted"]["messages"], plan["predicted"]["messages"])
        out = self.succeed(1, "plan", *arguments[:-1], "network=8x", "--machine", "machine.json", "--ranks", "2").out
        self.assertRegex(out, r"\nwhat if network=8x:\n(.*\n)+speed-up: [0-9.]+\n$")
        self.succeed(1, "plan", "stnn.toml", "--set", "relation.discover=dense", "--set", "parallel.threads=1", "--machine",
                     "machine.json", "--what-if", "precision=bf16")

    def test_bad_input(self):
        plan = ["plan", "stnn.toml", "--machine", "machine.json"]
        for words, message in ((["--ranks", "0"], "--ranks 0 is not a list of whole numbers from 1"),
                               (["--ranks", "4..2"], "4 is above 2"), (["--ranks", "2,,4"], "--ranks 2,,4 is not a list"),
                               (["--vary", "window.batch"], "--vary window.batch is not a key with values"),
                               (["--vary", "window.batch=4,4"], "a value is empty or given twice"),
                               (["--vary", "parallel.time_groups=1,2"], "all process grids are compared anyway"),
                               (["--ranks", "2", "--vary", "window.bach=4"], "window.bach.*window.batch"),
                               (["--vary", "window.bach=4"], "window.bach.*window.batch"),
                               (["--what-if", "network=fast"], 'what-if network=fast: "fast" is not a factor'),
                               (["--what-if", "speed=2x"], '"speed=2x" is unknown. Use network=2x')):
            with self.subTest(words):
                self.refuse(2, plan + words, message)
        self.refuse(2, plan + ["--ranks-per-host", "2"], "--ranks", code=2)
        self.refuse(2, plan + ["--tolerance", "1"], "--target-batch", code=2)
        self.refuse(2, ["plan", "stnn.toml", "--machine", "none.json"], "none.json: cannot be read. Make a machine file with 'rossby calibrate")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "stnn.toml"], "stnn.toml: the file is not JSON")
        self.write("old.json", '{"format": 0}')
        self.refuse(1, ["plan", "stnn.toml", "--machine", "old.json"], "old.json: the file has format 0, but this program reads format 2. Measure again")
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "model.precision=double"],
                    "was not measured in double")
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "parallel.threads=3"],
                    "was not measured in float with 3 threads")
        self.refuse(2, ["plan", "stnn.toml", "--machine", "machine.json", "--set", "parallel.device=cuda"],
                    "parallel.device")
        self.refuse(1, ["plan", "--check", "nowhere"], "nowhere/plan.json: this file is missing")
        self.refuse(1, ["plan", "--check", "nowhere", "--what-if", "network=2x"], "--what-if", code=2)
        self.refuse(1, [*plan, "--target-batch", "nan"], "nan", code=2)
        os.makedirs(self.path("folder.json"), exist_ok=True)
        self.refuse(1, ["plan", "stnn.toml", "--machine", "folder.json"], "folder.json: cannot read this file: Is a directory")
        for read in ("stnn.toml", "machine.json"):
            self.refuse(2, [*plan, "-o", read], f"{read}: this input file would be overwritten")
        self.assertTrue(self.load("machine.json", "machine.schema.json"), "what was there is still there")
        with open(self.path("sensors.nc"), "rb") as file:
            before = file.read()
        self.refuse(2, [*plan, "-o", "sensors.nc"], "sensors.nc: this input file would be overwritten")
        self.write("gpu.json", json.dumps(self.load("machine.json", "machine.schema.json")))
        self.refuse(1, [*plan, "--what-if", "gpu=gpu.json", "-o", "gpu.json"], "gpu.json: this input file would be overwritten")
        self.refuse(1, ["calibrate", "--quick", "--replace", "--config", "windows.toml", "-o", "windows.toml"],
                    "windows.toml: this input file would be overwritten")
        self.refuse(1, ["calibrate", "--quick", "--replace", "-o", "sensors.nc"], "sensors.nc: this is not a machine file")
        with open(self.path("sensors.nc"), "rb") as file:
            self.assertEqual(file.read(), before)
        self.refuse(1, ["plan", "--check", "nowhere", "-o", "x.json"], "--output", code=2)
        self.refuse(1, [*plan, "--vary", "model.latent=1,2", "--vary", "model.latent=3"], "model.latent is given twice")
        self.refuse(1, ["calibrate", "--quick", "--only", "messages", "-o", "none.json"], "--only messages needs at least two ranks")
        for what, why in (("transfer=2x", "nothing is copied to devices"), ("network=2x,network=3x", "network is given twice")):
            self.refuse(1, [*plan, "--what-if", what], why)
        rates = self.load("machine.json", "machine.schema.json")
        rates["rates"] = []
        self.write("rates.json", json.dumps(rates))
        self.refuse(1, ["plan", "stnn.toml", "--machine", "rates.json", "--what-if", "memory=2x"], "rates.json has no rates of memory")
        self.refuse(1, [*plan, "-o", "folder.json"], "folder.json: cannot write this file: it is a directory")
        os.mkfifo(self.path("pipe"))
        self.refuse(1, [*plan, "-o", "pipe"], "pipe: cannot write this file: it is not a regular file")
        self.refuse(2, ["calibrate", "-o", "no/such/machine.json", "--quick"], "no/such/machine.json")
        self.refuse(1, ["calibrate", "-o", "stnn.toml", "--quick"], "stnn.toml: the file is not JSON")
        other = self.load("machine.json", "machine.schema.json")
        other["processor"] = "another"
        self.write("other.json", json.dumps(other))
        self.refuse(2, ["calibrate", "-o", "other.json", "--quick"], "other.json: the measurements are from different machines: another.* --replace")
        with open(self.path("other.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["processor"], "another", "what was there is still there")


if __name__ == "__main__":
    support.main()
