"""The command line: help, version, configuration, and messages about wrong arguments."""

import re

import support

SUBCOMMANDS = [["train"], ["evaluate"], ["forecast"], ["average"], ["data"], ["data", "inspect"], ["data", "synth"],
               ["report"], ["report", "scaling"], ["config"]]


class CommandLine(support.ProgramTest):

    def test_help(self):
        text = self.succeed(1, "--help").out
        for words in SUBCOMMANDS:
            if len(words) == 1:
                self.assertRegex(text, rf"(?m)^  {words[0]} ")
            part = self.succeed(1, *words, "--help").out
            self.assertIn(f"Usage: rossby {' '.join(words)}", part)
            self.assertIn("--help", part)
        self.assertEqual(len(self.succeed(2, "train", "--help").out.split("Usage:")), 2, "one rank speaks")

    def test_version(self):
        text = self.succeed(1, "--version").out
        self.assertRegex(text, r"^rossby \d+\.\d+\.\d+")
        for word in ["built", "back ends", "cpu", "MPI", "PETSc", "HDF5", "NetCDF"]:
            self.assertIn(word, text)

    def test_wrong_command_line(self):
        for arguments, pattern in [
            ([], "subcommand is missing; there are train, evaluate, forecast, average, profile, relations, checkpoint, data, graph, calibrate, plan, report, config"),
            (["trian"], r"unknown subcommand trian \(did you mean train\?\)"),
            (["data"], "subcommand is missing; there are inspect, synth"),
            (["data", "sinth"], "did you mean synth"),
            (["--versoin"], r"unknown option --versoin \(did you mean --version\?\)"),
            (["train"], "config is required"),
            (["train", "a.toml"], "--run is required"),
            (["train", "a.toml", "--rnu", "d"], "--run is required|unknown option --rnu"),
            (["train", "a.toml", "--run", "d", "--sett", "x=1"], r"unknown option --sett \(did you mean --set\?\)"),
            (["train", "a.toml", "--run", "d", "b.toml"], "unexpected argument b.toml"),
            (["forecast", "d"], "--steps is required"),
            (["forecast", "d", "--steps", "0"], "--steps: 0 is not a whole number of at least 1"),
            (["forecast", "d", "--steps", "two"], "--steps: two is not a whole number"),
            (["data", "synth", "-o", "x.nc", "--lat", "1.5"], "--lat: 1.5 is not a whole number"),
            (["data", "synth", "-o", "x.nc", "--kind", "pacfic"], "--kind: pacfic not in .*pacific"),
            (["data", "synth", "-o", "x.nc", "--noise", "-1"], "--noise: -1 is not a number of at least 0"),
        ]:
            with self.subTest(arguments):
                self.refuse(1, arguments, pattern, "; see rossby .*--help$", code=2)
        self.refuse(2, ["train", "--bogus"], "unknown option --bogus", code=2)
        self.assertEqual(self.files(), set())


class Configuration(support.ProgramTest):

    def keys(self, text):
        table, keys = "", {}
        for line in text.splitlines():
            if match := re.match(r"^\[(\w+)\]$", line):
                table = match[1]
            elif match := re.match(r"^(\w+) = (.*)$", line):
                keys[f"{table}.{match[1]}"] = match[2]
        return keys

    def test_table_has_every_key(self):
        resolved = self.keys(self.succeed(1, "config", "--set", "train.seed=1").out)
        self.assertGreater(len(resolved), 50)
        table = self.succeed(1, "config").out
        printed = re.findall(r"(?m)^  (\w+\.\w+) +(\S+)", table)
        self.assertEqual([name for name, _ in printed], list(resolved))
        for line in re.findall(r"(?m)^  \w+\.\w+ .*$", table):
            self.assertGreater(len(line.split()), 3, "a key has a default and a meaning: " + line)

    def test_parses_back_to_itself(self):
        self.write("a.toml", '[data]\nvariables = ["a", "b\\"c"]\n[train]\nepochs = 7\n[optimiser]\nlr = 1e-3\n'
                             "[relation]\nhops = [1, 2]\nself = true\n[split]\ntrain = 1986-08-01\n")
        first = self.succeed(1, "config", "a.toml", "--set", "model.latent=3", "--set", "split.test=12").out
        keys = self.keys(first)
        for key, value in [("data.variables", '["a", "b\\"c"]'), ("train.epochs", "7"), ("optimiser.lr", "0.001"),
                           ("relation.hops", "[1, 2]"), ("relation.self", "true"), ("split.train", '"1986-08-01"'),
                           ("model.latent", "3"), ("split.test", '"12"')]:
            self.assertEqual(keys[key], value)
        self.write("b.toml", first)
        self.assertEqual(self.succeed(1, "config", "b.toml").out, first)

    def test_settings_take_one_value_each(self):
        self.write("c.toml", "")
        out = self.succeed(1, "config", "--set", "train.epochs=3", "c.toml").out
        self.assertEqual(self.keys(out)["train.epochs"], "3")


if __name__ == "__main__":
    support.main()
