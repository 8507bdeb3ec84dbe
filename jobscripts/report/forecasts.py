"""Figures of the last forecast: at chosen nodes, with what was observed before it, and on maps."""

import glob
import os

import matplotlib.dates
import netCDF4
import numpy

import maps
import style
from run_files import Places, date_text, dates, has, numbers


class Forecast:
    """forecast.nc: values (leads, nodes) of each variable, on the nodes of the data file."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.time = dataset["lead_time"].dimensions[0] if has(dataset, "lead_time") else "time"
        self.times, self.dated = dates(dataset[self.time])
        self.origin = dates(dataset["forecast_reference_time"])[0][0] if has(dataset, "forecast_reference_time") else None
        self.variables = [v for v in dataset.variables.values()
                          if v.dimensions[:1] == (self.time,) and v.ndim in (2, 3) and v.dtype.kind == "f" and "bounds" not in v.name]
        # (time, lat, lon) or (time, node[, feature]): the last two dimensions of a grid are axes, a feature
        # is not.
        first = self.variables[0] if self.variables else None
        self.nodes = () if first is None else first.dimensions[1:] if first.ndim == 2 or self.planar(first) else first.dimensions[1:2]
        self.places = Places(dataset, self.nodes) if first is not None else None

    def planar(self, variable):
        return has(self.dataset, "land_mask") or any(v.dimensions == variable.dimensions[1:] for v in self.dataset.variables.values())

    def feature(self, variable):
        """Returns the first feature, which is drawn for a variable with features."""
        return variable.ndim == 3 and len(self.nodes) == 1

    def values(self, variable):
        found = numbers(variable)
        if self.feature(variable):
            found = found[..., 0]
        return found.reshape(len(self.times), -1)

    def bands(self, variable):
        """Returns (low, high, name of the interval): pairs of quantiles, widest first, else the range of members."""
        for other in self.dataset.variables.values():
            if not other.name.startswith(variable.name) or other.ndim != variable.ndim + 1 or self.feature(variable):
                continue
            extra = [name for name in other.dimensions if name not in variable.dimensions]
            if len(extra) != 1 or self.time not in other.dimensions:
                continue
            place = other.dimensions.index(extra[0])
            found = numpy.moveaxis(numbers(other), place, 0).reshape(len(other[...] if place == 0 else self.dataset.dimensions[extra[0]]), len(self.times), -1)
            if extra[0] == "quantile" and has(self.dataset, "quantile"):
                levels = numbers(self.dataset["quantile"])
                pairs = [(low, high) for low in range(levels.size) for high in range(levels.size)
                         if levels[low] < 0.5 and abs(levels[low] + levels[high] - 1) < 1e-9]
                if pairs:
                    return [(found[low], found[high], f"{100 * (levels[high] - levels[low]):.4g} % interval") for low, high in sorted(pairs, key=lambda p: levels[p[0]])]
            elif extra[0] == "realization" and len(found) > 1:
                return [(found.min(axis=0), found.max(axis=0), f"range of {len(found)} members")]
        return []


def files_of(setting):
    """Returns the NetCDF files of data.file that exist, seen from this working directory."""
    names = setting if isinstance(setting, list) else [setting or ""]
    found = []
    for name in names:
        if str(name).endswith(".txt") and os.path.isfile(name):
            with open(name, encoding="utf-8") as file:
                lines = [line.strip() for line in file]
            found += [match for line in lines if line and not line.startswith("#") for match in sorted(glob.glob(line))]
        else:
            found += [name] if os.path.isfile(name) else sorted(glob.glob(str(name)))
    return [name for name in found if os.path.isfile(name)]


def history(run, forecast, variable, chosen, steps):
    """Returns times and values (steps, nodes) observed up to the origin; None if the data cannot be read here."""
    if forecast.origin is None:
        return None
    times, values = [], []
    for path in reversed(files_of(run.setting("data.file"))):
        try:
            with netCDF4.Dataset(path) as data:
                if not has(data, variable.name) or data[variable.name].dimensions != variable.dimensions or not has(data, forecast.time):
                    return None
                of_variable = data[variable.name]
                if of_variable.shape[1:] != variable.shape[1:]:
                    return None
                when, dated = dates(data[forecast.time])
                if dated != forecast.dated:
                    return None
                known = numpy.nonzero(when <= forecast.origin)[0][-(steps - len(times)):]
                if known.size == 0:
                    continue
                block = numbers(of_variable, slice(int(known[0]), int(known[-1]) + 1))
                block = (block[..., 0] if forecast.feature(variable) else block).reshape(len(known), -1)[:, chosen]
                times = list(when[known]) + times
                values.insert(0, block)
        except (OSError, IndexError, ValueError):
            return None
        if len(times) >= steps:
            break
    if not times:
        return None
    values = numpy.concatenate(values)
    null = run.setting("data.null_value", "")
    if null not in ("", None):
        values[values == float(null)] = numpy.nan
    return numpy.array(times), values


def choose_nodes(forecast, asked, errors=None):
    """Returns the requested nodes, else four: by errors from small to large, or spread over the list of nodes."""
    if asked:
        return [forecast.places.find(text) for text in asked]
    seen = numpy.isfinite(forecast.values(forecast.variables[0])).any(axis=0)
    if errors is not None and errors.size == seen.size:
        kept = numpy.nonzero(seen & numpy.isfinite(errors))[0]
        kept = kept[numpy.argsort(errors[kept], kind="stable")]
    else:
        kept = numpy.nonzero(seen)[0]
    if kept.size == 0:
        return []
    return list(dict.fromkeys(int(kept[round(share * (kept.size - 1))]) for share in (0.1, 0.4, 0.6, 0.9)))


def at_node(run, forecast, variable, node):
    fig, axes = style.figure()
    values = forecast.values(variable)[:, node]
    before = history(run, forecast, variable, [node], max(24, 4 * len(values)))
    times = forecast.times
    if before is not None:
        known = before[1][:, 0]
        axes.plot(before[0], known, color=style.INK, linewidth=1.3, label="observed")
        if numpy.isfinite(known[-1]):
            axes.plot([before[0][-1], times[0]], [known[-1], values[0]], color=style.MODEL, linewidth=1.2, linestyle=":")
    for low, high, name in forecast.bands(variable):
        if len(times) > 1:
            axes.fill_between(times, low[:, node], high[:, node], color=style.MODEL, alpha=0.2, linewidth=0, label=name)
        else:
            axes.vlines(times, low[:, node], high[:, node], color=style.MODEL, alpha=0.3, linewidth=5, label=name)
    axes.plot(times, values, color=style.MODEL, linewidth=2, marker="o", markersize=3.5, label="forecast")
    if forecast.origin is not None:
        axes.axvline(forecast.origin, color=style.GREY, linewidth=0.8)
    if forecast.dated:
        locator = matplotlib.dates.AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))
    else:
        axes.set_xlabel("time step")
    axes.set(ylabel=style.with_units(variable.name, getattr(variable, "units", "")), title=forecast.places.label(node))
    axes.legend(loc="best")
    return fig


def on_map(forecast, variable):
    """Draws maps of the first, the middle and the last lead."""
    values = forecast.values(variable)
    chosen = sorted({0, (len(values) - 1) // 2, len(values) - 1})
    if maps.shape_of(forecast.places) > 0.7:
        chosen = sorted({0, len(values) - 1})
    fields = [(date_text(forecast.times[k], forecast.times), values[k]) for k in chosen]
    return maps.panels(forecast.places, fields, style.with_units(variable.name, getattr(variable, "units", "")))
