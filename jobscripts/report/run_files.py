"""What a run directory holds, read for the report. A file that is not there is None; one that is damaged is a note."""

import datetime
import json
import os
import tomllib

import netCDF4
import numpy

from problem import Problem


class Run:
    def __init__(self, path, relations=""):
        """`relations`: the file with learned relations, if there is one."""
        self.path = path
        self.name = os.path.basename(os.path.abspath(path))
        self.notes = []
        self.config = self.read("config.toml", tomllib.loads)
        self.metrics = self.read("metrics.jsonl", read_lines) or []
        self.evaluation = self.read("evaluation.json", read_object)
        self.average = self.read("average.json", read_object)
        if self.config is None and self.average is None and not self.metrics:
            raise Problem(f"{path}: there is neither config.toml nor average.json. Name the directory of a run or an average")
        self.forecast = self.open("forecast.nc")
        self.scores = self.open("scores.nc")
        self.relations = self.open_file(relations) if relations else None

    def file(self, name):
        return os.path.join(self.path, name)

    def read(self, name, parse):
        try:
            with open(self.file(name), encoding="utf-8") as file:
                return parse(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.notes.append(f"{name} cannot be read: {error}")
            return None

    def open(self, name):
        return self.open_file(self.file(name)) if os.path.exists(self.file(name)) else None

    def open_file(self, path):
        try:
            return netCDF4.Dataset(path)
        except OSError as error:
            self.notes.append(f"{path} cannot be read: {error}")
            return None

    def setting(self, key, default=None):
        section, _, name = key.partition(".")
        return (self.config or {}).get(section, {}).get(name, default)


def read_object(text):
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def read_lines(text):
    """Reads whole lines: the last line of a running training may be incomplete."""
    lines = text.split("\n")
    return [read_object(line) for line in lines[:-1] if line.strip()]


def numbers(variable, index=...):
    """Returns values as float64, NaN where missing."""
    return numpy.ma.filled(numpy.ma.asarray(variable[index], dtype="float64"), numpy.nan)


def has(dataset, name):
    return dataset is not None and name in dataset.variables


class Places:
    """The nodes of a file of this program: coordinates, names, and the layout of their values on a map."""

    def __init__(self, dataset, dimensions):
        """`dimensions` of the nodes: (lat, lon), (row, column) or (node)."""
        self.shape = tuple(len(dataset.dimensions[name]) for name in dimensions)
        self.size = int(numpy.prod(self.shape))
        self.lat = self.lon = None
        self.ids = None
        self.axes = None  # of a regular grid
        if len(dimensions) == 2 and all(has(dataset, name) and dataset[name].ndim == 1 for name in dimensions):
            self.axes = tuple(numbers(dataset[name]) for name in dimensions)
            self.lat, self.lon = (a.reshape(-1) for a in numpy.meshgrid(*self.axes, indexing="ij"))
        else:
            self.find_coordinates(dataset, dimensions)
        if len(dimensions) == 1:
            self.find_ids(dataset, dimensions[0])

    def find_coordinates(self, dataset, dimensions):
        for variable in dataset.variables.values():
            if variable.dimensions != tuple(dimensions):
                continue
            units = str(getattr(variable, "units", ""))
            if units.startswith("degree") and units.endswith(("north", "N")):
                self.lat = numbers(variable).reshape(-1)
            elif units.startswith("degree") and units.endswith(("east", "E")):
                self.lon = numbers(variable).reshape(-1)
        if self.lat is None or self.lon is None or not (numpy.isfinite(self.lat).any() and numpy.isfinite(self.lon).any()):
            self.lat = self.lon = None

    def find_ids(self, dataset, dimension):
        for variable in dataset.variables.values():
            if variable.dimensions[:1] != (dimension,):
                continue
            if variable.name == dimension or getattr(variable, "cf_role", "") == "timeseries_id":
                if variable.ndim == 1:
                    self.ids = [str(value) for value in variable[:]]
                elif variable.ndim == 2 and variable.dtype == "S1":
                    self.ids = [str(value) for value in netCDF4.chartostring(variable[:])]

    @property
    def mapped(self):
        return self.lat is not None

    def label(self, node):
        if self.ids is not None:
            return self.ids[node]
        if self.axes is not None:
            return position_text(self.lat[node], self.lon[node])
        return f"node {node}" + (f" ({position_text(self.lat[node], self.lon[node])})" if self.mapped else "")

    def find(self, text):
        """Returns the node that a user names by an id, lat,lon or a number."""
        if self.ids is not None and text in self.ids:
            return self.ids.index(text)
        parts = text.split(",")
        if len(parts) == 2 and self.mapped:
            try:
                lat, lon = float(parts[0]), float(parts[1])
            except ValueError:
                raise Problem(f"--node {text}: not latitude,longitude. Write two numbers, such as 52.5,13.4") from None
            return int(numpy.nanargmin(distance(lat, lon, self.lat, self.lon)))
        if text.isdigit() and int(text) < self.size:
            return int(text)
        raise Problem(f"--node {text}: there is no such node. Give an id, a number below {self.size}" + (" or latitude,longitude" if self.mapped else ""))


def distance(lat, lon, lats, lons):
    """Returns great-circle distances in radians."""
    a, b, c = numpy.radians(lat), numpy.radians(lats), numpy.radians(lons - lon)
    return numpy.arccos(numpy.clip(numpy.sin(a) * numpy.sin(b) + numpy.cos(a) * numpy.cos(b) * numpy.cos(c), -1, 1))


def position_text(lat, lon):
    lon = (lon + 180) % 360 - 180
    return f"{abs(lat):.4g}°{'N' if lat >= 0 else 'S'} {abs(lon):.4g}°{'E' if lon >= 0 else 'W'}"


def dates(variable):
    """Returns dates of a time variable if its calendar is the usual one, else its numbers; and True if they are dates."""
    values = numbers(variable)
    units, calendar = str(getattr(variable, "units", "")), str(getattr(variable, "calendar", "standard"))
    if " since " in units and calendar in ("standard", "gregorian", "proleptic_gregorian"):
        try:
            return numpy.array([datetime.datetime(*when.timetuple()[:6]) for when in
                                numpy.atleast_1d(netCDF4.num2date(values, units, calendar))]), True
        except (ValueError, OverflowError):
            pass
    return numpy.atleast_1d(values), False


def date_text(when, among=()):
    """Returns the stamp as text. If all stamps in `among` (the axis) are first days of months, leaves out the day."""
    if not isinstance(when, datetime.datetime):
        return f"step {when:g}"
    if len(among) and all((other.day, other.hour, other.minute, other.second) == (1, 0, 0, 0) for other in among):
        return when.strftime("%Y-%m")
    return when.strftime("%Y-%m-%d" if (when.hour, when.minute, when.second) == (0, 0, 0) else "%Y-%m-%d %H:%M")
