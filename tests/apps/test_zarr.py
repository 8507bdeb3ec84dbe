"""Series in Zarr stores: as xarray and zarr write them, Anemoi's layout, several stores, and trainings."""

import json
import os
import shutil
import unittest

import support
from sensors import SENSORS, Runs, sensors

try:
    import numpy
    import xarray
    import zarr
except ImportError:
    numpy = None

CONFIG = SENSORS.replace("epochs = 2", "epochs = 3").replace('"edges"', '"edges"\nfile = "sensors.nc"') + "[model]\nlatent = 2\n"


@unittest.skipIf(numpy is None, "python3-zarr, python3-xarray or python3-numpy is not installed")
class Zarr(Runs):
    config = "zarr.toml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.netcdf("sensors.nc", sensors(20, 3, holes=((2, 1), (7, 0))))
        cls.write("zarr.toml", CONFIG)
        cls.data = xarray.open_dataset(cls.path("sensors.nc"))[["v"]].load()

    @classmethod
    def store(cls, name, data=None, **how):
        data = cls.data if data is None else data
        data.to_zarr(cls.path(name), **how)
        return name

    def inspected(self, *names):
        lines = self.succeed(1, "data", "inspect", *names, "--variable", "v").out.split("\n")
        return [line for line in lines if not line.startswith(("file", "edges"))]

    def test_what_xarray_writes(self):
        import numcodecs
        expected = self.inspected("sensors.nc")
        packed = {"dtype": "int16", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -9}
        for name, encoding in (("blosc", {}), ("none", {"compressor": None}), ("zlib", {"compressor": numcodecs.Zlib()}),
                               ("gzip", {"compressor": numcodecs.GZip()}), ("zstd", {"compressor": numcodecs.Zstd()}),
                               ("lz4", {"compressor": numcodecs.LZ4()}), ("bitshuffle", {"compressor": numcodecs.Blosc(
                                   "zstd", shuffle=numcodecs.Blosc.BITSHUFFLE)}), ("chunked", {"chunks": (7, 2)}),
                               ("packed", packed), ("float64", {"dtype": "float64"})):
            for consolidated in (True, False):
                with self.subTest(name=name, consolidated=consolidated):
                    self.store(f"{name}{consolidated}.zarr", encoding={"v": encoding}, consolidated=consolidated)
                    self.assertEqual(self.inspected(f"{name}{consolidated}.zarr"), expected)

    def test_trainings_are_those_from_netcdf(self):
        self.store("chunks.zarr", encoding={"v": {"chunks": (3, 2)}})
        for k, (first, last) in enumerate(((0, 11), (11, 12), (12, 20))):
            self.store(f"part_{k}.zarr", self.data.isel(time=slice(first, last)))
        self.succeed(2, *self.arguments("netcdf", "data.file=sensors.nc"))
        for ranks in (1, 2, 3):
            self.succeed(ranks, *self.arguments(f"one_{ranks}", "data.file=chunks.zarr"))
            self.succeed(ranks, *self.arguments(f"parts_{ranks}", "data.file=part_*.zarr"))
            self.assertEqual(self.ends(f"one_{ranks}"), self.ends(f"parts_{ranks}"))
        self.assertEqual(self.ends("one_2"), self.ends("netcdf"))
        self.succeed(2, "evaluate", "parts_2")
        self.succeed(1, "forecast", "one_2", "--steps", "2")

    def test_names_and_groups(self):
        for names in (["a", "bä", "c"], numpy.array(["a", "bä", "c"], dtype=object)):
            shutil.rmtree(self.path("names.zarr"), ignore_errors=True)
            self.store("names.zarr", self.data.assign_coords(node=("node", names)))
            self.succeed(1, *self.arguments("names", "data.file=names.zarr", "train.epochs=1"))
            out = self.path("names.nc")
            self.succeed(1, "forecast", "names", "--steps", "1", "-o", out)
            self.assertEqual(list(xarray.open_dataset(out)["node"].values), ["a", "bä", "c"])
            shutil.rmtree(self.path("names"))
        self.store("groups.zarr", group="deep")
        self.refuse(1, ["data", "inspect", "groups.zarr"], "the groups of the file .deep. are not read")

    def test_what_zarr_writes(self):
        """Anemoi's layout, and a store in Fortran order, which is refused."""
        root = zarr.open_group(self.path("anemoi.zarr"), mode="w")
        values = self.data["v"].values
        data = numpy.stack([values, 2 * values], axis=1)[:, :, None, :]
        root.create_dataset("data", data=data, chunks=(1, 2, 1, 3), fill_value=numpy.nan)
        root.create_dataset("dates", data=self.data["time"].values.astype("M8[s]"))
        root.create_dataset("latitudes", data=numpy.array([1.0, 2.0, 3.0]))
        root.create_dataset("longitudes", data=numpy.array([1.0, 2.0, 3.0]))
        root.attrs["variables"] = ["v", "w"]
        for ranks in (1, 2):
            self.succeed(ranks, *self.arguments(f"anemoi_{ranks}", "data.file=anemoi.zarr"))
        self.succeed(2, *self.arguments("as_netcdf", "data.file=sensors.nc"))
        self.assertEqual(self.ends("anemoi_2"), self.ends("as_netcdf"))
        root = zarr.open_group(self.path("other.zarr"), mode="w")
        root.create_dataset("v", data=values, order="F")
        self.refuse(2, self.arguments("bad", "data.file=other.zarr"), "order .F.")
        self.refuse(1, ["data", "inspect", "other.zarr"], "array v: .*Fortran order")

    def test_damaged_stores(self):
        self.store("cut.zarr", encoding={"v": {"chunks": (5, 3)}})
        path = self.path("cut.zarr/v/2.0")
        with open(path, "rb") as file:
            whole = file.read()
        with open(path, "wb") as file:
            file.write(whole[:len(whole) // 2])
        self.refuse(3, self.arguments("bad", "data.file=cut.zarr"), "cut.zarr/v/2.0: cannot decompress this chunk")
        os.remove(path)
        self.assertIn("missing", self.succeed(1, "data", "inspect", "cut.zarr").out)
        with open(self.path("cut.zarr/.zmetadata"), encoding="utf-8") as file:
            metadata = json.load(file)
        metadata["metadata"]["v/.zarray"]["shape"][1] = 4
        with open(self.path("cut.zarr/.zmetadata"), "w", encoding="utf-8") as file:
            json.dump(metadata, file)
        self.refuse(2, self.arguments("bad", "data.file=cut.zarr"), "3 nodes|4 nodes|node")
        os.makedirs(self.path("empty.zarr"))
        self.refuse(2, self.arguments("bad", "data.file=empty.zarr"), "this folder is not a Zarr store")
        self.assertFalse(os.path.exists(self.path("bad")))


if __name__ == "__main__":
    support.main()
