#!/usr/bin/env python3
"""Writes synthetic water levels of 24 gauges on a river with two arms: levels.csv, gauges.csv and distances.csv.

usage: make_levels.py [FOLDER]

Rain falls on catchments, runs into the river, and travels downstream with a delay. Python's standard library only; the
numbers are the same each time.
"""

import csv
import datetime
import pathlib
import random
import sys

HOURS = 60 * 24
UPSTREAM = [None, 0, 1, 2, 3, 4, 5, 6, None, 8, 9, 10, 11, 12, 13, 14, (7, 15), 16, 17, 18, 19, 20, 21, 22]
DELAY = 2          # hours from one gauge to the next


def upstream(gauge: int) -> tuple[int, ...]:
    above = UPSTREAM[gauge]
    return () if above is None else above if isinstance(above, tuple) else (above,)


def rain(rng: random.Random) -> list[float]:
    """Showers that begin at random and decay within hours, stronger in the afternoon."""
    falling, series = 0.0, []
    for hour in range(HOURS):
        if rng.random() < (0.03 if 13 <= hour % 24 <= 20 else 0.008):
            falling += rng.expovariate(0.8)
        falling *= 0.8
        series.append(falling)
    return series


def levels(rng: random.Random) -> list[list[float]]:
    """Level of each gauge at each hour, metres."""
    basins = [rain(rng) for _ in range(3)]  # two arms and what lies below them
    flow: list[list[float]] = []
    for gauge in range(len(UPSTREAM)):
        catchment = basins[0 if gauge < 8 else 1 if gauge < 16 else 2]
        local, series = 0.0, []
        for hour in range(HOURS):
            local = 0.93 * local + 0.02 * catchment[hour]
            above = sum(flow[other][max(0, hour - DELAY)] for other in upstream(gauge))
            series.append(local + 0.97 * above / max(1, len(upstream(gauge))))
        flow.append(series)
    return [[1 + 0.05 * gauge + value + rng.gauss(0, 0.01) for value in series] for gauge, series in enumerate(flow)]


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    rng = random.Random(7)
    level = levels(rng)
    names = [f"G{gauge + 1:02d}" for gauge in range(len(UPSTREAM))]
    start = datetime.datetime(2025, 3, 1)

    with open(folder / "levels.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["time", *names])
        for hour in range(HOURS):
            if rng.random() < 0.01:
                continue  # the logger was off: no line at all
            row = ["" if rng.random() < 0.02 else f"{series[hour]:.3f}" for series in level]
            table.writerow([(start + datetime.timedelta(hours=hour)).isoformat(" "), *row])

    with open(folder / "gauges.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["gauge", "catchment_km2"])
        for gauge, name in enumerate(names):
            table.writerow([name, 40 + 25 * (gauge % 8) + 200 * (gauge >= 16)])

    with open(folder / "distances.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["from", "to", "km"])
        for gauge, name in enumerate(names):
            for other in upstream(gauge):
                table.writerow([names[other], name, 7 + gauge * 5 % 9])
    print(f"levels.csv: {HOURS} hours of {len(names)} gauges, about 1 % of the hours missing; gauges.csv; distances.csv")


if __name__ == "__main__":
    main()
