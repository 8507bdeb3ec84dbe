"""Shared by the tests of plans: two trainings, and a machine with a short measurement."""

from sensors import RingRuns
from test_device import STNN
from test_schemas import LoadsJson
from test_windows import WINDOWS


class PlanRuns(LoadsJson, RingRuns):
    config = "stnn.toml"
    measures = False  # predictions use only measurements in the machine file

    @classmethod
    def run_ranks(cls, ranks, *arguments, **more):
        if "--machine" in arguments and not cls.measures:
            arguments += ("--no-measure",)
        return super().run_ranks(ranks, *arguments, **more)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("windows.toml", WINDOWS)
        cls.write("stnn.toml", STNN.replace('"nearest"', '"edges"').replace('"double"', '"float"'))

    @classmethod
    def calibrate(cls, ranks, machine, *arguments):
        """Measures the machine and returns the output of the program."""
        result = cls.run_ranks(ranks, "calibrate", "-o", machine, "--quick", *arguments)
        assert result.codes == [0] * ranks, result
        return result.out
