#!/usr/bin/env python3
"""Writes the seeds of the target netcdf_classic: small files of the three classic formats, and a truncated
one.

make_classic_seeds.py FOLDER
"""
import pathlib
import struct
import sys


def classic(version):
    """Returns a file with two records of time(time) and x(time, node = 3) and a global title."""
    wide = version == 5

    def number(value):
        return struct.pack(">Q" if wide else ">I", value)

    def word(text):
        return number(len(text)) + text + b"\0" * (-len(text) % 4)

    def variable(name, dimensions, kind, size, begin):
        return (word(name) + number(len(dimensions)) + b"".join(map(number, dimensions)) + struct.pack(">I", 0)
                + number(0) + struct.pack(">I", kind) + number(size)
                + struct.pack(">I" if version == 1 else ">Q", begin))

    def variables(begin):
        return (struct.pack(">I", 11) + number(2) + variable(b"time", [0], 6, 8, begin)
                + variable(b"x", [0, 1], 5, 12, begin + 8))

    head = b"CDF" + bytes([version]) + number(2)
    head += struct.pack(">I", 10) + number(2) + word(b"time") + number(0) + word(b"node") + number(3)
    head += struct.pack(">I", 12) + number(1) + word(b"title") + struct.pack(">I", 2) + word(b"hello")
    return head + variables(len(head) + len(variables(0))) + b"\0" * 40


folder = pathlib.Path(sys.argv[1])
for version in (1, 2, 5):
    (folder / f"cdf{version}").write_bytes(classic(version))
(folder / "cut").write_bytes(classic(2)[:-13])
