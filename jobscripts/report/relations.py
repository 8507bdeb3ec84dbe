"""Figures of learned relations: relations.nc of `rossby relations`."""

import re

import numpy

import maps
import style
from run_files import Places, has, numbers, position_text

ARROWS = 60  # strongest relations on a map
CANDIDATES = 5000  # strongest relations from which these are chosen


class Relations:
    def __init__(self, dataset):
        self.dataset = dataset
        self.places = Places(dataset, ("node",))
        on_grid(self.places)
        self.names = [str(name) for name in dataset["relation"][:]] if has(dataset, "relation") else []
        if not self.names:  # only weights of nodes on themselves
            self.source = self.target = self.number = numpy.zeros(0, dtype=int)
            self.weight = self.distance = numpy.zeros(0)
            return
        self.source, self.target, self.number = (numpy.asarray(dataset[name][:], dtype=int) for name in
                                                 ("edge_source", "edge_target", "edge_relation"))
        self.weight = numbers(dataset["edge_weight"])
        self.join()
        self.distance = numbers(dataset["edge_distance"]) if has(dataset, "edge_distance") else None

    def join(self):
        """Joins refined_1, refined_2, …, such as the directions of a grid, to one relation."""
        stems = [re.sub(r"_\d+$", "", name) for name in self.names]
        self.names = list(dict.fromkeys(stems))
        group = numpy.array([self.names.index(stem) for stem in stems])
        self.members = [numpy.nonzero(group == k)[0] for k in range(len(self.names))]
        self.number = group[self.number]

    def strength(self, relation, along):
        """Returns mean |weight| of pairs, over the bins of `along` (0: bearing, 1: distance)."""
        strength, pairs = (numbers(self.dataset[name])[self.members[relation]] for name in ("strength", "pairs"))
        with numpy.errstate(divide="ignore", invalid="ignore"):
            return numpy.nansum(strength * pairs, axis=(0, 1 + along)) / pairs.sum(axis=(0, 1 + along))

    def of(self, relation):
        """Returns the edges of a relation between different nodes, strongest first."""
        found = numpy.nonzero((self.number == relation) & (self.source != self.target) & numpy.isfinite(self.weight))[0]
        return found[numpy.argsort(-abs(self.weight[found]), kind="stable")]

    def label(self, node):
        if self.places.ids is None and self.places.mapped:
            return position_text(self.places.lat[node], self.places.lon[node])
        return self.places.label(node)


def on_grid(places):
    """Arranges the nodes of a regular grid in its cells, so that their maps have no holes."""
    places.cells = None
    if not places.mapped:
        return
    lat, lon = numpy.unique(places.lat), numpy.unique(places.lon)
    if 1 < lat.size * lon.size <= 4 * places.size and min(lat.size, lon.size) > 1:
        places.cells = (numpy.searchsorted(lat, places.lat), numpy.searchsorted(lon, places.lon), lat, lon)


def field(places, values):
    """Returns the places and values for a map."""
    if places.cells is None:
        return places, values
    rows, columns, lat, lon = places.cells
    grid = numpy.full((lat.size, lon.size), numpy.nan)
    grid[rows, columns] = values
    return Grid(lat, lon), grid.reshape(-1)


class Grid:
    """The part of Places that a map needs."""

    def __init__(self, lat, lon):
        self.axes, self.shape, self.size = (lat, lon), (lat.size, lon.size), lat.size * lon.size
        self.lat, self.lon = (a.reshape(-1) for a in numpy.meshgrid(lat, lon, indexing="ij"))


def apart(relations, edges, lon):
    """Returns the first edges whose ends are not both near those of an earlier edge, because strong weights come in bundles."""
    lat = relations.places.lat
    near = 0.05 * max(numpy.nanmax(lon) - numpy.nanmin(lon), numpy.nanmax(lat) - numpy.nanmin(lat))
    chosen = []
    for edge in edges[:CANDIDATES]:
        if len(chosen) == ARROWS:
            break
        ends = (relations.source[edge], relations.target[edge])
        def beside(k, other):
            return max(abs(lon[k] - lon[other]), abs(lat[k] - lat[other])) <= near
        if not any(beside(ends[0], relations.source[c]) and beside(ends[1], relations.target[c]) for c in chosen):
            chosen.append(edge)
    return numpy.array(chosen, dtype=int)


def arrows(relations, relation):
    """Draws strong relations as arrows from the node that acts; None without coordinates or relations."""
    places = relations.places
    found = relations.of(relation)
    if not places.mapped or found.size == 0:
        return None
    lon = maps.shifted(places)[0]
    chosen = apart(relations, found, lon)[::-1]
    fig, axes = style.figure(height=0.9 + (style.WIDTH - 0.6) * maps.shape_of(places))
    back = places.cells is not None
    if back:
        shown, values = field(places, numpy.zeros(places.size))
        maps.draw(axes, shown, values * numpy.nan, (0, 1), "Greys")
    axes.scatter(lon, places.lat, s=float(numpy.clip(4000 / places.size, 0.3, 12)), color="#b8c4cc", linewidth=0, rasterized=True)
    strength = abs(relations.weight[chosen])
    colours = style.pyplot.get_cmap(style.SEQUENTIAL)
    most = strength.max() or 1.0
    for edge, weight in zip(chosen, strength):
        a, b = relations.source[edge], relations.target[edge]
        axes.annotate("", (lon[b], places.lat[b]), (lon[a], places.lat[a]),
                      arrowprops={"arrowstyle": "-|>", "color": colours(0.85 * (1 - weight / most)), "linewidth": 0.6 + 1.4 * weight / most,
                                  "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7, "connectionstyle": "arc3,rad=0.12"})
    maps.lay(axes, places)
    scale = style.pyplot.cm.ScalarMappable(style.pyplot.Normalize(0, most), colours.reversed())
    fig.colorbar(scale, ax=axes, location="bottom", label="weight" if (relations.weight[chosen] >= 0).all() else "|weight|",
                 aspect=40, pad=0.02, shrink=0.9)
    axes.set_title(f"{relations.names[relation]}: {len(chosen)} strong ones of {found.size}")
    return fig


def own(relations):
    """Maps the weight of each node on itself; None without self weights."""
    if not has(relations.dataset, "self_weight") or not relations.places.mapped:
        return None
    shown, values = field(relations.places, numbers(relations.dataset["self_weight"]))
    return maps.panels(shown, [("Weight of each node on itself", values)], "weight")


def influence(relations):
    """Returns (figure, caption) for each place: the nodes that act on it, and the nodes that it acts on."""
    data = relations.dataset
    if not has(data, "place") or not relations.places.mapped:
        return []
    found = []
    acting, acted = numbers(data["weight_on_place"]), numbers(data["weight_of_place"])
    for number, node in enumerate(numpy.asarray(data["place"][:], dtype=int)):
        for relation, name in enumerate(relations.names):
            fields = []
            for title, values in (("acts on", acting), ("feels", acted)):
                one = numpy.nansum(values[relations.members[relation], number], axis=0)
                one[node] = numpy.nan
                if numpy.isfinite(one).any() and numpy.nanmax(abs(one)) > 0:
                    fields.append((f"What {title} {relations.label(node)}", *field(relations.places, one)))
            if not fields:
                continue
            together = numpy.concatenate([values for *_, values in fields])
            centred = bool(numpy.nanmin(together) < 0)
            fig = maps.panels(fields[0][1], [(title, values) for title, _, values in fields], f"weight, {name}", centred)
            lon = maps.shifted(relations.places)[0]
            for axes in fig.axes[:len(fields)]:
                axes.plot(lon[node], relations.places.lat[node], "*", color="white", markeredgecolor="black", markersize=11)
            found.append((fig, f"{name}: the weights of the relation at {relations.label(node)} (star)"))
    return found


def by_distance(relations):
    """Draws mean strength over all pairs of nodes by distance; None without coordinates."""
    data = relations.dataset
    if not has(data, "strength"):
        return None
    fig, axes = style.figure()
    middle = numbers(data["distance"])
    shown = False
    for relation, name in enumerate(relations.names):
        mean = relations.strength(relation, 1)
        if not (mean > 0).any():
            continue
        shown = True
        axes.plot(middle, mean, color=[style.MODEL, *style.COLOURS][relation % 6], linewidth=1.8, marker="os^Dvp"[relation % 6], markersize=3.5, label=name)
    if not shown:
        return None
    axes.set(xlabel="distance (km)", ylabel="mean |weight| of a pair", title="Strength by distance")
    axes.set_ylim(bottom=0)
    if len(relations.names) > 1:
        axes.legend()
    return fig


def by_direction(relations):
    """Draws mean strength by the direction from which the other node acts; None without coordinates."""
    data = relations.dataset
    if not has(data, "strength"):
        return None
    bearing = numpy.radians(numbers(data["bearing"]))
    fig = style.pyplot.figure(figsize=(style.WIDTH, 3.6))
    axes = fig.add_subplot(projection="polar")
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    shown = False
    for relation, name in enumerate(relations.names):
        mean = relations.strength(relation, 0)
        if not (mean > 0).any():
            continue
        shown = True
        closed = numpy.append(mean, mean[0])
        axes.plot(numpy.append(bearing, bearing[0]), closed / numpy.nanmax(closed), color=[style.MODEL, *style.COLOURS][relation % 6], linewidth=1.8,
                  marker="os^Dvp"[relation % 6], markersize=3, label=name)
    if not shown:
        style.pyplot.close(fig)
        return None
    axes.set_xticks(numpy.radians(numpy.arange(0, 360, 45)), ["N", "NE", "E", "SE", "S", "SW", "W", "NW"])
    axes.set_ylim(0, 1.05)
    axes.set_rticks([0.5, 1], ["½", "1"])
    axes.set_title("Where influence comes from (share of the strongest direction)")
    if len(relations.names) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncol=2)
    return fig


def strongest(relations, relation, count=8):
    """Returns rows of a table."""
    rows = []
    for edge in relations.of(relation)[:count]:
        a, b = relations.source[edge], relations.target[edge]
        far = "" if relations.distance is None or not numpy.isfinite(relations.distance[edge]) else f"{relations.distance[edge]:,.0f} km"
        rows.append([relations.label(a), relations.label(b), far, f"{relations.weight[edge]:.4g}"])
    return rows
