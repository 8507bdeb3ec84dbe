"""Values of nodes on a map: cells of a grid, or points."""

import numpy
from matplotlib.ticker import MaxNLocator

import style


def limits(values, centred):
    """Returns colour limits at the 1st and 99th percentile, so that outliers do not dominate. `centred`: symmetric about 0."""
    finite = values[numpy.isfinite(values)]
    if finite.size == 0:
        return -1.0, 1.0
    low, high = numpy.percentile(finite, [1, 99])
    if centred:
        most = max(abs(low), abs(high)) or 1.0
        return -most, most
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def shape_of(places):
    """Returns height over width of the map, as seen from above its middle."""
    lat, lon = places.lat[numpy.isfinite(places.lat)], shifted(places)[0]
    wide = max(numpy.nanmax(lon) - numpy.nanmin(lon), 1e-6) * max(0.2, float(numpy.cos(numpy.radians(lat.mean()))))
    return float(numpy.clip(max(lat.max() - lat.min(), 1e-6) / wide, 0.3, 1.25))


def shifted(places):
    """Returns longitudes without a jump inside the region, and the shift of each."""
    lon = places.lon % 360
    finite = numpy.sort(lon[numpy.isfinite(lon)])
    if finite.size < 2:
        return places.lon, places.lon * 0
    gaps = numpy.diff(numpy.append(finite, finite[0] + 360))
    widest = int(numpy.argmax(gaps))
    start = finite[(widest + 1) % finite.size]
    moved = (lon - start) % 360 + start
    if numpy.nanmax(moved) > 360 and numpy.nanmin(moved) >= 180:
        moved = moved - 360
    return moved, moved - places.lon


def lay(axes, places):
    """Axes of a map."""
    lat = places.lat[numpy.isfinite(places.lat)]
    axes.set_aspect(1 / max(0.2, float(numpy.cos(numpy.radians(lat.mean())))), adjustable="datalim" if places.axes is None else "box")
    axes.grid(False)
    axes.xaxis.set_major_formatter(lambda x, _: degrees((x + 180) % 360 - 180, "E", "W"))
    axes.yaxis.set_major_formatter(lambda y, _: degrees(y, "N", "S"))
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=5)


def degrees(value, positive, negative):
    if abs(value + 180) < 1e-9:
        return "180°"
    return f"{abs(value):.4g}°{positive if value > 0 else negative if value < 0 else ''}"


def draw(axes, places, values, bounds, colours):
    """Draws values (nodes) on the map. Returns the object for a colour bar."""
    lon = shifted(places)[0]
    look = {"vmin": bounds[0], "vmax": bounds[1], "cmap": colours, "rasterized": True}
    if places.axes is not None:
        order = numpy.argsort(lon.reshape(places.shape)[0])
        axes.set_facecolor("#ededed")
        drawn = axes.pcolormesh(lon.reshape(places.shape)[0][order], places.axes[0], values.reshape(places.shape)[:, order], shading="nearest", **look)
    else:
        size = float(numpy.clip(9000 / max(places.size, 1), 2, 45))
        kept = numpy.isfinite(values)
        axes.scatter(lon[~kept], places.lat[~kept], s=size / 3, color="#cccccc", linewidth=0, rasterized=True)
        drawn = axes.scatter(lon[kept], places.lat[kept], c=values[kept], s=size, linewidth=0.3, edgecolor="#555555", **look)
    lay(axes, places)
    return drawn


def panels(places, fields, label, centred=False, bounds=None):
    """Draws one map per field, (title, values), above one another, with one colour bar."""
    together = numpy.concatenate([values.reshape(-1) for _, values in fields])
    bounds = bounds or limits(together, centred)
    height = len(fields) * (0.35 + (style.WIDTH - 0.6) * shape_of(places)) + 0.75
    fig, axes = style.figure(len(fields), 1, height=height, squeeze=False)
    for place, (title, values) in zip(axes[:, 0], fields):
        drawn = draw(place, places, values.reshape(-1), bounds, style.DIVERGING if centred else style.SEQUENTIAL)
        place.set_title(title)
    finite = together[numpy.isfinite(together)]
    extend = "neither"
    if finite.size:
        below, above = finite.min() < bounds[0], finite.max() > bounds[1]
        extend = "both" if below and above else "min" if below else "max" if above else "neither"
    fig.colorbar(drawn, ax=axes[:, 0], location="bottom", label=label, extend=extend, aspect=40, pad=0.02, shrink=0.9, ticks=MaxNLocator(6, steps=[1, 2, 5, 10]))
    return fig
