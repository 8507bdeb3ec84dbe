"""rossby calibrate and rossby plan for devices: measured on a simulated device and compared with trainings on it."""

import json

import support
from plan_runs import PlanRuns
from test_windows import GRAPH_WAVENET

DEVICE = "parallel.device=simulated"
DENSE = ["relation.graph=none", "relation.discover=dense"]


class DevicePlan(PlanRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for ranks in (1, 2):
            cls.said = cls.calibrate(ranks, "machine.json", "--device", "simulated")
        cls.calibrate(1, "host.json")

    def test_calibrate(self):
        machine = self.load("machine.json", "machine.schema.json")
        self.assertRegex(self.said, r"measured  2 ranks x [0-9]+ threads?, [0-9]+ x simulated device in ")
        self.assertEqual(machine["device"]["name"], "simulated device")
        self.assertGreater(machine["device"]["wait_seconds"], 0)
        there = [op for op in machine["ops"] if "host_seconds" in op]
        here = [op for op in machine["ops"] if "host_seconds" not in op]

        def calls(ops):
            return {(op["op"], op["backward"], op["ranks"], op["rows"], op["columns"], op["channels"]) for op in ops}
        # The trainings are the same, but a device needs several ops for a single pass of the host over memory.
        of_host, of_device = calls(here), calls(there)
        self.assertEqual({op for op, *_ in of_host - of_device}, {"table_difference", "table_decoded_error"})
        self.assertEqual({op for op, *_ in of_device - of_host},
                         {"embed", "linear", "masked_squared_error", "squared_difference"})
        for op in there:
            self.assertGreater(op["host_seconds"], 0, op)
            self.assertGreaterEqual(op["seconds"], 0, op)
        self.assertGreater(sum(op["seconds"] > 0 for op in there), 0.9 * len(there))
        kinds = {"gather", "scatter_add", "allgather", "reduce_scatter", "allreduce"}
        for transport in (None, "staged"):
            of = [sample for sample in machine["messages"] if sample.get("transport") == transport]
            self.assertEqual({sample["kind"] for sample in of}, kinds if transport else kinds | {"looked_at_sum"})
        rates = {rate["kind"]: rate["rate"] for rate in machine["rates"]}
        for kind in ("device_stream", "device_gemm", "copy_in", "copy_out", "pinned_in", "pinned_out", "pinned_both"):
            self.assertGreater(rates[kind], 0, kind)
        self.assertEqual(sorted({(s["ranks"], "on_device" in s) for s in machine["stragglers"]}),
                         [(2, False), (2, True)])
        self.assertNotIn("device", self.load("host.json", "machine.schema.json"))

    def test_the_device_alone(self):
        for precision in ("tf32", "bf16"):
            self.succeed(1, "calibrate", "-o", f"{precision}.json", "--quick", "--only", "device", "--device", "simulated", "--precision", precision)
            machine = self.load(f"{precision}.json", "machine.schema.json")
            self.assertEqual({(op["precision"], "host_seconds" in op) for op in machine["ops"]}, {(precision, True)})
            there = ["plan", "stnn.toml", "--machine", f"{precision}.json", "--set", DEVICE]
            self.succeed(1, *there, "--set", f"parallel.products={precision}")
            self.refuse(1, there, "devices of the machine were not measured in float")
            self.refuse(1, [*there, "--set", f"parallel.products={precision}", "--set", "model.precision=double"],
                        "devices of the machine were not measured in double")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "tf32.json"], "the machine was not measured in float")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "tf32.json", "--set", DEVICE, "--set", "parallel.products=tf32", "--what-if", "products=bf16"],
                    "devices of the machine were not measured in bf16")
        self.refuse(1, ["plan", "stnn.toml", "--machine", "tf32.json", "--set", DEVICE, "--what-if", "products=fp8"], "products=tf32|bf16")

    def test_devices_that_are_not_there(self):
        self.refuse(2, ["calibrate", "-o", "none.json", "--device", "cuda"], "no GPU was found to measure")
        self.refuse(2, ["calibrate", "-o", "none.json", "--only", "device"], "no GPU was found to measure")
        self.refuse(1, ["calibrate", "-o", "none.json", "--precision", "tf32"], "no GPU was found to measure")
        self.refuse(1, ["calibrate", "-o", "none.json", "--precision", "tf32", "--device", "none"], "Give --device cuda")
        self.refuse(1, ["calibrate", "-o", "none.json", "--device", "tpu"], "--device", code=2)
        for machine, device in (("machine.json", "cuda"), ("host.json", "cuda"), ("host.json", "simulated")):
            self.refuse(1, ["plan", "stnn.toml", "--machine", machine, "--set", f"parallel.device={device}"],
                        f'parallel.device = "{device}", but the machine was measured without')
        # If a training would use the host, so does its plan.
        plan = self.plan(1, "stnn.toml", "parallel.device=auto")
        self.assertNotIn("device", plan)
        self.assertGreater(plan["predicted"]["memory_bytes"], 0)

    def plan(self, ranks, config, *settings, machine="machine.json"):
        words = [word for setting in settings for word in ("--set", setting)]
        self.succeed(ranks, "plan", config, "--machine", machine, "-o", "plan.json", *words)
        return self.load("plan.json", "plan.schema.json")

    def test_plan(self):
        # Messages of devices go through the host's memory, and are measured beside the host's own. Ten times slower
        # ones differ clearly, however busy the machine was.
        slow = self.load("machine.json", "machine.schema.json")
        for sample in slow["messages"]:
            if sample.get("transport") == "staged":
                sample["seconds"] *= 10
        self.write("slow.json", json.dumps(slow))
        for config, ranks in (("stnn.toml", 1), ("stnn.toml", 2), ("windows.toml", 2)):
            with self.subTest(config=config, ranks=ranks):
                plan = self.plan(ranks, config, DEVICE)
                predicted = plan["predicted"]
                self.assertEqual(plan["device"], "simulated device")
                parts = sum(predicted[part] for part in ("forward", "backward", "optimiser", "messages", "reduction",
                                                         "pipeline", "transfer", "launches", "straggler"))
                self.assertAlmostEqual(parts, predicted["step_seconds"])
                self.assertGreater(predicted["launches"], 0)
                self.assertEqual(predicted["messages"] > 0, ranks > 1)
                self.assertEqual((predicted["memory_bytes"], predicted["unmeasured"]), (0, []))
                here, slowly = (self.plan(ranks, config, *settings, machine="slow.json")["predicted"]["messages"]
                                for settings in ((), (DEVICE,)))
                self.assertEqual(here, self.plan(ranks, config)["predicted"]["messages"])
                if ranks > 1:
                    self.assertGreater(slowly, 2 * max(here, predicted["messages"]))
        out = self.succeed(1, "plan", "stnn.toml", "--machine", "machine.json", "--set", DEVICE).out
        self.assertRegex(out, "each rank on a device: simulated device")
        self.assertRegex(out, r"  launches and waits +[0-9.]+ ms")
        self.assertRegex(out, r"  memory of a device: ")
        # With NCCL, steps run ahead of the devices: devices sum gradients, hosts share their votes.
        machine = self.load("machine.json", "machine.schema.json")
        machine["messages"] += [dict(sample, transport="nccl", seconds=sample["seconds"] / 4)
                                for sample in machine["messages"] if sample.get("transport") == "staged"]
        self.write("nccl.json", json.dumps(machine))
        for config, clip in (("stnn.toml", 0), ("windows.toml", 5)):
            words = [DEVICE, f"optimiser.clip={clip}"]
            staged, nccl = (self.plan(2, config, *words, f"parallel.transport={transport}", machine="nccl.json")
                            for transport in ("host", "nccl"))
            names = [{op["op"] for op in plan["ops"]} & {"reduction", "device_reduction", "vote"} for plan in (staged, nccl)]
            self.assertEqual(names, [{"reduction"}, {"device_reduction", "vote"}])
            self.assertEqual(nccl["predicted"]["unmeasured"], [])
            self.assertLess(nccl["predicted"]["sent"]["bytes"], staged["predicted"]["sent"]["bytes"])
            self.assertLess(nccl["predicted"]["step_seconds"], staged["predicted"]["step_seconds"])
        # One process plans jobs of any size on devices too.
        words = ["plan", "stnn.toml", "--machine", "machine.json", "--set", DEVICE, "--ranks", "1,2,8", "-o", "jobs.json"]
        self.succeed(1, *words)
        jobs = self.load("jobs.json", "candidates.schema.json")["candidates"]
        self.assertEqual({job["ranks"] for job in jobs}, {1, 2, 8})
        for job in jobs:
            if job["refused"]:
                continue
            self.assertGreater(job["predicted"]["device_bytes"], 0)

    def test_memory_is_told_to_the_byte(self):
        for run, ranks, *settings in (("one", 1), ("two", 2), ("three", 3, *DENSE), ("low", 2, "relation.discover=low_rank"),
                                      ("groups", 2, "parallel.time_groups=2", "train.lanes=2"),
                                      ("streamed", 2, *DENSE, "relation.memory=streamed", "relation.update=device",
                                       f"relation.chunk_mib={2 * 9 * 4 / 2**20}"),
                                      ("pairs", 1, "train.sampling=pairs", "train.pairs=50"),
                                      ("far_pairs", 1, *DENSE, "train.sampling=pairs", "train.pairs=200", "model.latent=64")):
            with self.subTest(run):
                out = self.succeed(ranks, *self.arguments(run, *settings, DEVICE), "--machine", "machine.json").out
                self.assertRegex(out, r"plan +[0-9.e+-]+ ms a step predicted, [0-9.e+-]+ measured \([+-]")
                self.told(run)
        for run, ranks, *settings in (("dcrnn", 1), ("rows", 2), ("recomputed", 2, "train.recompute=cell"),
                                      ("wavenet", 2, *GRAPH_WAVENET), ("times", 2, "parallel.time_groups=2")):
            with self.subTest(run):
                words = [word for setting in (*settings, DEVICE) for word in ("--set", setting)]
                self.succeed(ranks, "train", "windows.toml", "--run", run, *words, "--machine", "machine.json")
                self.told(run)
        runs = ["one", "two", "dcrnn", "rows"]
        out = self.succeed(1, "plan", "--check", *runs).out
        self.assertEqual([line.split()[-2:] for line in out.splitlines()[1:5]], [["0.0", "exact"]] * 4, out)

    def told(self, run):
        plan = self.load(f"{run}/plan.json", "plan.schema.json")
        self.assertGreater(plan["measured"]["device_bytes"], 0)
        self.assertEqual(plan["predicted"]["device_bytes"], plan["measured"]["device_bytes"])
        with open(self.path(f"{run}/metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(json.loads(file.readlines()[-1])["peak_device_bytes"], plan["measured"]["device_bytes"])

    def test_candidates_that_do_not_fit(self):
        machine = self.load("machine.json", "machine.schema.json")
        words = ["plan", "windows.toml", "--set", DEVICE, "--set", "model.units=64", "--candidates", "-o", "candidates.json", "--machine"]
        self.succeed(1, *words, "machine.json")
        every = self.load("candidates.json", "candidates.schema.json")["candidates"]
        needs = sorted({c["predicted"]["device_bytes"] for c in every})
        self.assertGreater(len(needs), 1, "recomputation takes less")
        # A rank gets its share of a shared device, less what the CUDA runtime takes.
        machine["device"].update(memory_bytes=(needs[0] + needs[-1]) / 2 / 0.92)
        self.write("small.json", json.dumps(machine))
        self.succeed(1, *words, "small.json")
        found = self.load("candidates.json", "candidates.schema.json")["candidates"]
        self.assertEqual([c["predicted"]["device_bytes"] > (needs[0] + needs[-1]) / 2 for c in found],
                         [c["refused"].startswith("needs ") for c in found])
        self.assertIn("of device memory, but a rank may use", "".join(c["refused"] for c in found))
        self.assertTrue(any(c["fastest"] for c in found))
        self.succeed(1, *words, "machine.json", "--set", f"parallel.device_memory={int(needs[0]) - 1}B")
        found = self.load("candidates.json", "candidates.schema.json")["candidates"]
        self.assertTrue(all(c["refused"].startswith("needs ") for c in found))

    def test_what_if(self):
        quick = self.load("machine.json", "machine.schema.json")
        for op in quick["ops"]:
            if "host_seconds" in op:
                op.update(seconds=op["seconds"] / 100, host_seconds=1e-9)
        quick["device"].update(wait_seconds=0)
        self.write("quick.json", json.dumps(quick))

        def speed_up(config, what_if, *settings, machine="machine.json"):
            words = [word for setting in settings for word in ("--set", setting)]
            self.succeed(1, "plan", config, "--machine", machine, "-o", "what_if.json", "--what-if", what_if, *words)
            answer = self.load("what_if.json", "plan.schema.json")
            self.assertEqual(answer["what_if"]["plan"]["device"], "simulated device")
            return answer["what_if"]["speed_up"]
        self.assertGreater(speed_up("windows.toml", "gpu=quick.json", DEVICE), 50)
        self.assertAlmostEqual(speed_up("windows.toml", "gpu=machine.json", DEVICE), 1)
        # A machine without devices, if it had these devices.
        self.assertGreater(speed_up("windows.toml", "gpu=quick.json", machine="host.json"), 0)
        slow = dict(quick)
        slow["rates"] = [dict(r, rate=1e3 if r["kind"].startswith("pinned") else r["rate"]) for r in slow["rates"]]
        self.write("slow.json", json.dumps(slow))
        streamed = [DEVICE, *DENSE, "relation.memory=streamed", f"relation.chunk_mib={2 * 9 * 4 / 2**20}",
                    f"relation.stream_gib={(2 * 2 * 3 * 9 * 4 + 1) / 2**30}"]
        self.assertAlmostEqual(speed_up("stnn.toml", "transfer=4x", *streamed, machine="slow.json"), 4, delta=0.1)
        self.refuse(1, ["plan", "windows.toml", "--machine", "machine.json", "--what-if", "gpu=host.json"],
                    "gpu=host.json: this machine was measured without a GPU")
        self.refuse(1, ["plan", "windows.toml", "--machine", "machine.json", "--what-if", "gpu=no.json"], "no.json: cannot be read")
        self.refuse(1, ["plan", "windows.toml", "--machine", "machine.json", "--what-if", "gpu="], "is unknown. Use network=2x")

    def test_another_device(self):
        machine = self.load("machine.json", "machine.schema.json")
        machine["device"].update(name="another device")
        self.write("other.json", json.dumps(machine))
        self.refuse(1, ["calibrate", "-o", "other.json", "--quick", "--device", "simulated"], "the measurements are from different devices")
        machine["device"].update(count=0)
        self.write("other.json", json.dumps(machine))
        self.refuse(1, ["plan", "stnn.toml", "--machine", "other.json"], "devices have a count below 1")


if __name__ == "__main__":
    support.main()
