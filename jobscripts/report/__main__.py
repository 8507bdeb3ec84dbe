#!/usr/bin/env python3
"""Draws the pictures of `rossby report`. Needs matplotlib and netCDF4 (Debian: python3-matplotlib, python3-netcdf4)."""

import argparse
import sys

from problem import Problem


def main():
    parser = argparse.ArgumentParser(prog="report", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_run = kinds.add_parser("run", help="a page of one run")
    of_run.add_argument("run", help="directory of the run")
    of_run.add_argument("--output", required=True, help="folder for index.html and the pictures")
    of_run.add_argument("--node", action="append", default=[], help="id, number or latitude,longitude of a node whose forecast is drawn")
    of_run.add_argument("--relations", default="", help="file of rossby relations")
    of_run.add_argument("--remark", action="append", default=[], help="a line for the section on relations")
    of_run.add_argument("--version", default="", help="version of the program, for the page")
    of_scaling = kinds.add_parser("scaling", help="plots of scaling.json")
    of_scaling.add_argument("folder", help="folder with scaling.json, for the plots")
    of_scaling.add_argument("--band", type=float, help="half width of the band around predictions, in percent")
    arguments = parser.parse_args()
    try:
        if arguments.kind == "run":
            import run_page
            print(run_page.write(arguments))
        else:
            import scaling
            scaling.draw(arguments.folder, arguments.band)
    except Problem as problem:
        sys.exit(str(problem))
    except OSError as error:
        sys.exit(f"{error.filename or arguments.kind}: {error.strerror or error}")


if __name__ == "__main__":
    main()
