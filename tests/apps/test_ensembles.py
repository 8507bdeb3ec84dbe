"""Averages as ensembles: members dressed with residuals, and killed evaluations."""

import os
import signal
import time

import support
from test_hindcasts import GridFiles

try:
    import numpy
    import xarray
except ImportError:
    numpy = None


class Ensembles(GridFiles):

    def test_an_average_has_intervals_and_spread(self):
        run = self.trained()
        self.evaluated(2, "--hindcasts", "h.nc", "--against", "persistence")
        data = self.dataset("h.nc")
        if not os.path.exists(self.path("mean")):
            self.succeed(1, "average", run, "persistence", "-o", "mean")
        for ranks in [1, 3]:
            out = self.succeed(ranks, "evaluate", "mean", "--hindcasts", "m.nc").out
            self.assertIn("spread of the members", out)
            found, mean = self.load("mean/evaluation.json", "evaluation.schema.json"), self.dataset("m.nc")
            self.hold_scores(mean, found, "sst")
            numpy.testing.assert_allclose(mean.sst.values, (data.sst.values + data.sst_baseline.values) / 2, rtol=1e-5)
            for h, entry in enumerate(found["ensemble"]):
                apart = (data.sst - data.sst_baseline).isel(lead=h).values.astype(float) / 2
                self.assertAlmostEqual(entry["spread"], numpy.sqrt(numpy.nanmean(apart**2)), delta=1e-4 * entry["spread"])
                self.assertAlmostEqual(entry["spread_skill_ratio"], entry["spread"] / found["horizons"][h]["rmse"]["model"], 6)
            self.succeed(ranks, "forecast", "mean", "--steps", "2", "--members", "--intervals", "90")
            self.assertEqual(self.dataset("mean/forecast.nc").sst_quantiles.dims, ("quantile", "time", "lat", "lon"))

    def test_members_are_dressed(self):
        """NumPy computes the same realizations from the members. Scores do not depend on the ranks."""
        run = self.trained()
        self.succeed(1, "average", run, "persistence", "climatology", "--weights", "stacking", "-o", "near")
        found = []
        for ranks in [1, 3]:
            out = self.succeed(ranks, "evaluate", "near").out
            self.assertIn("members dressed with residuals of the validation part: the 50 % interval contains", out)
            found.append(self.load("near/evaluation.json", "evaluation.schema.json")["dressed"])
        self.assertEqual(found[0]["validation_origins"], 10)
        for a, b in zip(found[0]["horizons"], found[1]["horizons"]):
            for key in ["crps", "spread", "spread_skill_ratio"]:
                self.assertAlmostEqual(a[key], b[key], delta=1e-4 * a[key])
            self.assertAlmostEqual(sum(a["pit"]), 1, 9)
        self.succeed(1, "forecast", "near", "--steps", "3", "--members")
        members, count = self.dataset("near/forecast.nc").sst_members.values.astype(float), 24
        before = None
        for ranks in [1, 3]:
            self.succeed(ranks, "forecast", "near", "--steps", "3", "--dressed", str(count), "--intervals", "50")
            data = self.dataset("near/forecast.nc")
            self.assertEqual(data.sst_members.dims[:2], ("realization", "time"))
            self.assertEqual(data.sizes["realization"], count)
            self.assertEqual(data.member.values[2], "dressed 3")
            values = data.sst_members.values.astype(float)
            if before is not None:
                numpy.testing.assert_allclose(values, before, rtol=1e-4, atol=1e-4)
            before = values
        quantile = ((numpy.arange(count) + 0.5) * 0.6180339887498949) % 1
        for h, horizon in enumerate(self.load("near/average.json", "average.schema.json")["horizons"]):
            whose = numpy.searchsorted(numpy.cumsum(horizon["weights"]), (numpy.arange(count) + 0.5) / count)
            for k in range(len(members)):
                mine = numpy.flatnonzero(whose == k)
                if len(mine) < 2:
                    continue
                off = (values[mine, h] - members[k, h])[numpy.argsort(quantile[mine])][:, ~numpy.isnan(members[k, h])]
                self.assertGreater(numpy.diff(off, axis=0).min(), 0, "a larger quantile is a larger value at every node")
        self.refuse(2, ["forecast", run, "--steps", "1", "--dressed", "5"], "--dressed works only with averages")
        self.refuse(2, ["forecast", "near", "--steps", "1", "--members", "--dressed", "5"], "Give only one of these options")
        os.remove(self.path("near/intervals.h5"))
        self.refuse(2, ["forecast", "near", "--steps", "1", "--dressed", "5"], "intervals.h5: .*rossby evaluate near")

    def test_killed_while_it_writes(self):
        """An incomplete file never has the final name. The next start removes temporary files."""
        run = self.trained()
        self.evaluated(2, "--hindcasts", "whole.nc")
        parts = lambda: [name for name in os.listdir(self.folder) if name.startswith("killed.nc.") and name.endswith(".part")]
        for _ in range(20):
            process = self.launch([support.mpiexec, "-n", "2", support.rossby, "evaluate", run, "-o", "killed.json", "--hindcasts", "killed.nc"])
            while process.poll() is None and not parts():
                time.sleep(0.002)
            for pid in self.ranks(process):
                os.kill(pid, signal.SIGKILL)
            process.wait(timeout=60)
            if parts():
                break
            if os.path.exists(self.path("killed.nc")):  # it was complete before the kill
                os.remove(self.path("killed.nc"))
        self.assertEqual(len(parts()), 1)
        self.assertFalse(os.path.exists(self.path("killed.nc")))
        self.write("killed.nc.x7.part", "of somebody else")
        self.write(f"killed.nc.{os.getpid()}.part", "of a process that lives")
        self.evaluated(2, "--hindcasts", "killed.nc")
        self.assertEqual(sorted(parts()), sorted(["killed.nc.x7.part", f"killed.nc.{os.getpid()}.part"]))
        xarray.testing.assert_identical(self.dataset("killed.nc"), self.dataset("whole.nc"))


if __name__ == "__main__":
    support.main()
