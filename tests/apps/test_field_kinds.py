"""Further inputs of the kinds of test_field: another order of dates or of nodes, fast clocks, values beyond
float32, and options under another name."""

import support
from test_field import TOML, series, waves


class Kinds(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("t.toml", TOML)

    def train(self, run, data, *settings):
        words = [w for s in (f"data.file={data}", *settings) for w in ("--set", s)]
        return self.succeed(1, "train", "t.toml", "--run", run, *words).out

    # Time

    def days(self, steps):
        """(year, month, day) from 2009-12-01 on."""
        at = [2009, 12, 1]
        for _ in range(steps):
            yield tuple(at)
            at[2] += 1
            if at[2] > (28 if at[1] == 2 else 30 if at[1] in (4, 6, 9, 11) else 31):
                at[1:] = [at[1] % 12 + 1, 1]
                at[0] += at[1] == 1

    def test_dates_in_another_order(self):
        orders = {"DDMMYYYY": lambda y, m, d: f"{d}{m:02}{y}", "MMDDYYYY": lambda y, m, d: f"{m}{d:02}{y}",
                  "YYMMDD": lambda y, m, d: f"{y % 100}{m:02}{d:02}"}
        for name, write in orders.items():
            for units in ("1", f"day as {name}"):
                stamps = [int(write(*date)) for date in self.days(60)]
                self.netcdf("order.nc", series(waves(60, 3), units=units, stamps=stamps))
                self.refuse(1, ["data", "inspect", "order.nc"], rf"look like dates \({name}\).*format=\"%")
        # Numbers that are dates in the usual order, too, are read in that order.
        for name, stamps in (("YYYYMM", [100 * (2010 + m // 12) + m % 12 + 1 for m in range(36)]),
                             ("YYYYDDD", [2012001 + t for t in range(60)]),
                             ("YYYYMMDD", [int(f"{y}{m:02}{d:02}") for y, m, d in self.days(60)])):
            self.netcdf("usual.nc", series(waves(len(stamps), 3), units="1", stamps=stamps))
            self.assertIn(f"are read as {name}", self.succeed(1, "data", "inspect", "usual.nc").out)
        self.netcdf("count.nc", series(waves(60, 3), units="1", stamps=[100101 + t for t in range(60)]))
        self.assertIn("plain counts", self.succeed(1, "data", "inspect", "count.nc").out)

    def test_steps_of_no_whole_milliseconds(self):
        cases = (("f256", "seconds since 2024-01-01", [t / 256 for t in range(60)]),
                 ("hz60", "microseconds since 2024-01-01", [round(1e6 * t / 60) for t in range(60)]))
        for name, units, stamps in cases:
            self.netcdf(name + ".nc", series(waves(60, 3), units=units, stamps=stamps))
            self.refuse(2, ["train", "t.toml", "--run", "none", "--set", f"data.file={name}.nc"],
                        rf"{name}\.nc: variable time: its steps are .* ms apart, but times are kept to the millisecond.*units")
        for units, stamps in (("microseconds", [20000 * t for t in range(60)]), ("\u00b5s", [20000 * t for t in range(60)]),
                              ("\u03bcs", [20000 * t for t in range(60)]), ("ns", [20000000 * t for t in range(60)])):
            self.netcdf("whole.nc", series(waves(60, 3), units=units + " since 2024-01-01", stamps=stamps))
            self.assertIn("step 0.02 seconds\n", self.succeed(1, "data", "inspect", "whole.nc").out)
        # Clocks that run unevenly are not refused.
        self.netcdf("jitter.nc", series(waves(60, 3), units="ms since 2024-01-01", stamps=[10 * t + t * t % 7 for t in range(60)]))
        self.assertIn("not regular", self.succeed(1, "data", "inspect", "jitter.nc").out)

    # Values

    def test_single_values_beyond_float32(self):
        rows = [[x + 10 for x in row] for row in waves(60, 4)]
        rows[5][1], rows[20][2] = 1e300, -1e39
        self.netcdf("beyond.nc", series(rows, kind="double"))
        said = "2 values are 1e15 or more in size"
        self.assertIn("suspect   " + said, self.succeed(1, "data", "inspect", "beyond.nc").out)
        for model in ("gru", "stnn"):
            self.assertIn("warning   " + said, self.train("beyond" + model, "beyond.nc", f"model.name={model}"))
        self.assertIn("1 value is 1e15 or more", self.train("named", "beyond.nc", "data.null_value=1e300"))
        self.netcdf("infinite.nc", series(rows[:20] + [[float("inf"), 1.0, 2.0, 3.0]] + rows[21:], kind="double",
                                          attributes="v:missing_value = 1e300 ;").replace("inf", "Infinity"))
        self.assertNotIn("suspect", self.succeed(1, "data", "inspect", "infinite.nc").out)

    def test_counts_beside_weights(self):
        rows = [[int(10 * abs(x)) for x in row] for row in waves(60, 3)]
        weights = "  float weight(time, node) ;"
        cdl = series(rows, kind="int", more=weights).replace("data:\n", "data:\n  weight = " + ", ".join(["0.5"] * 180) + " ;\n")
        self.netcdf("counts.nc", cdl)
        self.refuse(2, ["train", "t.toml", "--run", "none", "--set", "data.file=counts.nc"], r"counts\.nc: .*weight.*data\.variables")
        self.assertIn("variable  v\n", self.succeed(1, "data", "inspect", "counts.nc", "--variable", "v").out)

    # Nodes

    def test_newer_data_in_another_order_of_nodes(self):
        """Such data are no corrected values: no node would get its own scale."""
        rows, ids, order = waves(80, 5), [11, 22, 33, 44, 55], [3, 0, 4, 1, 2]
        self.netcdf("asis.nc", series(rows[:60], ids=ids))
        self.netcdf("longer.nc", series(rows, ids=ids))
        self.netcdf("mixed.nc", series([[row[i] for i in order] for row in rows], ids=[ids[i] for i in order]))
        corrected = [[x + (0.5 if t == 3 else 0) for x in row] for t, row in enumerate(rows)]
        self.netcdf("corrected.nc", series(corrected, ids=ids))
        self.train("ordered", "asis.nc", "split.train=36", "split.validation=12")
        forecast = ["forecast", "ordered", "--steps", "2", "--set"]
        self.succeed(1, *forecast, "data.file=longer.nc")
        for more in ([], ["--accept-changed-data"]):
            self.refuse(2, [*forecast, "data.file=mixed.nc", *more], r"mixed\.nc: its nodes are not those that .* in another order.*ds\.sel")
        self.refuse(2, [*forecast, "data.file=corrected.nc"], "accept the changes with --accept-changed-data")
        self.succeed(1, *forecast, "data.file=corrected.nc", "--accept-changed-data")

    def test_known_inputs_without_ids(self):
        rain = "  float rain(time, node) ; rain:units = \"mm\" ;"

        def file(name, steps, ids, first=0):
            cdl = series(waves(steps, 3), ids=ids, more=rain, stamps=range(first, first + steps))
            numbers = ", ".join(str((5 * t + i) % 4) for t in range(steps) for i in range(3))
            self.netcdf(name, cdl.replace("data:\n", f"data:\n  rain = {numbers} ;\n"))

        file("known.nc", 60, [7, 8, 9])
        file("next.nc", 4, None, 60)
        file("next_ids.nc", 4, [9, 7, 8], 60)
        self.train("known", "known.nc", 'data.variables=["v"]', 'data.known_inputs=["rain"]')
        forecast = ["forecast", "known", "--steps", "2", "--inputs"]
        self.assertIn("next.nc: its nodes have no ids: they are matched by position", self.succeed(2, *forecast, "next.nc").out)
        self.assertNotIn("by position", self.succeed(2, *forecast, "next_ids.nc").out)

    # Options

    def test_options_under_another_name(self):
        for option in ("-o", "--output"):
            self.refuse(1, ["train", "t.toml", option, "run"], rf"unknown option {option} \(did you mean --run DIR", code=2)
        self.refuse(1, ["evaluate", "--run", "run"], r"unknown option --run \(give run without --run\)", code=2)


if __name__ == "__main__":
    support.main()
