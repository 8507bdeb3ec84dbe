"""Pictures of measurements: drawn from data files beside this script."""

import json
import math
import pathlib
import re

from svg import Drawing

HERE = pathlib.Path(__file__).resolve().parent


def axis(highest: float) -> tuple[float, int]:
    """Distance and number of ticks up to a value, about five of them."""
    power = 10 ** math.floor(math.log10(highest / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if highest <= 5 * factor * power)
    return step, math.ceil(highest / step)


def errors_by_lead() -> Drawing:
    """RMSE over lead time of the tutorial's forecasters, from levels_errors.json."""
    data = json.loads((HERE / "levels_errors.json").read_text(encoding="utf-8"))
    d = Drawing(860, 340, "Root mean squared error by lead time of the tutorial's forecasters")
    left, top, width, height = 70, 50, 540, 230
    step, ticks = axis(max(max(values) for values in data["rmse"].values()))
    highest = step * ticks
    d.text(30, 28, f"RMSE by lead time ({data['unit']}), {data['series']}", 14, "start", weight="bold")
    for tick in range(ticks + 1):
        y = top + height * (1 - tick / ticks)
        d.line([(left, y), (left + width, y)], "se", 0.6, "3 3")
        d.text(left - 8, y + 4, f"{step * tick:.2f}", 11, "end", "soft")
    leads = len(data["lead"])
    for k, lead in enumerate(data["lead"]):
        d.text(left + width * (k + 0.5) / leads, top + height + 18, lead, 11, kind="soft")
    ends = []
    for (name, values), kind in zip(data["rmse"].items(), ("sd", "sa", "sb", "sc", "se")):
        points = [(left + width * (k + 0.5) / leads, top + height * (1 - value / highest)) for k, value in enumerate(values)]
        d.line(points, kind, 2)
        for x, y in points:
            d.dot(x, y, 2.6, kind[1:])
        ends.append([points[-1][1], name, kind])
    ends.sort(key=lambda end: end[0])
    for k in range(1, len(ends)):  # labels do not overlap
        ends[k][0] = max(ends[k][0], ends[k - 1][0] + 17)
    for y, name, kind in ends:
        d.dot(left + width + 12, y, 4, kind[1:])
        d.text(left + width + 22, y + 4, name, 12, "start")
    d.text(left + width / 2, 320, data["version"], 11, kind="soft")
    return d


def pacific_relation() -> Drawing:
    """The weights with which cells of the Pacific act on one of them, from pacific_relation.json."""
    data = json.loads((HERE / "pacific_relation.json").read_text(encoding="utf-8"))
    rows, cell, left, top = data["weights"], 9, 70, 50
    d = Drawing(860, 380, "Map of the Pacific: weights with which cells act on one cell at the equator")
    d.text(30, 28, f"Learned weights on the cell at {-data['place'][0]:g}° S, {360 - data['place'][1]:g}° W: {data['series']}", 14, "start", weight="bold")
    codes = "ABCD0abcd"
    for k, row in enumerate(rows):
        for run in re.finditer(r"(.)\1*", row):
            weight = codes.find(run.group(1)) - 4
            if run.group(1) == " ":
                continue
            colour = "#8a93a1" if weight == 0 else "#c2781a" if weight > 0 else "#2f6fd0"
            d.parts.append(f'<rect x="{left + cell * run.start()}" y="{top + cell * k}" width="{cell * len(run.group())}" height="{cell}" '
                           f'fill="{colour}" fill-opacity="{abs(weight) / 4 if weight else 0.12:g}"/>')
    height, step = cell * len(rows), data["step"]
    def place(lat, lon):
        return left + cell * ((lon - data["first_lon"]) / step + 0.5), top + cell * ((data["first_lat"] - lat) / step + 0.5)
    for lat in (-20, 0, 20):
        d.text(left - 8, place(lat, 0)[1] + 4, f"{abs(lat)}° {'S' if lat < 0 else 'N'}" if lat else "0°", 11, "end", "soft")
    for lon in (140, 180, 220, 260):
        d.text(place(0, lon)[0], top + height + 18, f"{lon}° E" if lon <= 180 else f"{360 - lon}° W", 11, kind="soft")
    x, y = place(*data["place"])
    d.parts.append(f'<circle class="ink" cx="{x:g}" cy="{y:g}" r="4"/>')
    for k, (weight, colour) in enumerate([(-1, "#2f6fd0"), (-0.5, "#2f6fd0"), (0, "#8a93a1"), (0.5, "#c2781a"), (1, "#c2781a")]):
        d.parts.append(f'<rect x="{left + 110 * k}" y="{top + height + 30}" width="18" height="12" fill="{colour}" fill-opacity="{abs(weight) or 0.12:g}"/>')
        d.text(left + 110 * k + 24, top + height + 40, f"{weight * data['largest']:+.5f}" if weight else "0", 11, "start", "soft")
    d.text(830, top + height + 40, data["version"].split(";")[0], 11, "end", "soft")
    return d


PICTURES = {"errors_by_lead": errors_by_lead, "pacific_relation": pacific_relation}
