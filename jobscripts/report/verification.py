"""Maps of scores.nc, which `rossby evaluate --scores` writes: RMSE, skill, bias and anomaly correlation of each node."""

import numpy

import maps
import style
from run_files import Places, has, numbers

# Suffix of the variable, caption, True if colours are centred on 0, True if it has the data's units.
SCORES = [("_rmse", "Root mean squared error", False, True), ("_skill", "Skill over {baseline}: 1 − RMSE of the model / RMSE of the baseline", True, False),
          ("_bias", "Bias: forecast less observation", True, True), ("_acc", "Anomaly correlation", False, False)]


class Scores:
    def __init__(self, dataset):
        self.dataset = dataset
        self.names = [name.removesuffix("_rmse") for name in dataset.variables if name.endswith("_rmse") and not name.endswith("_baseline_rmse")]
        self.places = self.nodes = None
        if self.names:
            dimensions = dataset[self.names[0] + "_rmse"].dimensions[1:]
            planar = len(dimensions) == 2 and (all(has(dataset, name) for name in dimensions)
                                               or any(v.dimensions == dimensions and str(getattr(v, "units", "")).startswith("degree")
                                                      for v in dataset.variables.values()))
            self.nodes = dimensions if planar else dimensions[:1]
            self.places = Places(dataset, self.nodes)

    def values(self, name):
        """Returns (leads, nodes), of the first feature."""
        found = numbers(self.dataset[name])
        if found.ndim == 3 and len(self.nodes) == 1:
            found = found[..., 0]
        return found.reshape(found.shape[0], -1)

    def lead_text(self, k):
        if not has(self.dataset, "lead"):
            return f"step {k + 1}"
        lead = self.dataset["lead"]
        value, units = float(numbers(lead)[k]), str(getattr(lead, "units", ""))
        if not units or units == "1":
            return f"{value:g} steps ahead" if value != 1 else "1 step ahead"
        return f"{value:g} {units.removesuffix('s') if value == 1 else units} ahead"

    def node_errors(self):
        """Returns the mean RMSE of each node over the leads; None without scores."""
        return numpy.sqrt((self.values(self.names[0] + "_rmse") ** 2).mean(axis=0)) if self.names else None

    def maps(self, out):
        if self.places is None or not self.places.mapped:
            return []
        found = []
        for name in self.names[:2]:
            for ending, caption, centred, in_units in SCORES:
                if not has(self.dataset, name + ending):
                    continue
                values = self.values(name + ending)
                if not numpy.isfinite(values).any():
                    continue
                leads = sorted({0, len(values) - 1} if maps.shape_of(self.places) > 0.7 else {0, (len(values) - 1) // 2, len(values) - 1})
                variable = self.dataset[name + ending]
                title = ending[1:].upper() if ending in ("_rmse", "_acc") else ending[1:]
                label = f"{name}: " + (style.with_units(title, str(getattr(variable, "units", ""))) if in_units else title)
                fig = maps.panels(self.places, [(self.lead_text(k), values[k]) for k in leads], label, centred)
                text = caption.format(baseline=getattr(self.dataset, "baseline", "the baseline"))
                found.append(out.add(fig, f"map_{name}{ending}", f"{text}, {name}.", raster=True))
        return found
