"""Shared by the tests of reports."""

import html
import importlib.util
import re
import subprocess


def has_matplotlib():
    """True if a Python that the program uses has matplotlib."""
    finds = "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, ['matplotlib', 'netCDF4'])))"
    for python in ("python3", "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", finds], check=False, capture_output=True).returncode == 0:
                return True
        except OSError:
            pass
    return False


def has_netcdf():
    """True if this interpreter can read NetCDF."""
    return importlib.util.find_spec("netCDF4") is not None


def svg_texts(path):
    """Returns the texts of a figure. matplotlib draws texts as shapes, and keeps each text in a comment."""
    return [html.unescape(text.strip()) for text in re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"), re.DOTALL)]
