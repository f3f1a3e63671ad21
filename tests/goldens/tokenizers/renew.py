#!/usr/bin/env python3
"""Copies the tokenizer of reference models, without their weights, and the ids that go with it.

usage: renew.py REFERENCE_DATA NAME...   (folders of REFERENCE_DATA/golden)
"""
import pathlib
import shutil
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def end_of_value(data, pos, kind):
    """Where a value of type `kind` at `pos` ends (GGUF version 3, little-endian)."""
    if kind == STRING:
        return pos + 8 + struct.unpack_from("<Q", data, pos)[0]
    if kind != ARRAY:
        return pos + SIZES[kind]
    element, count = struct.unpack_from("<IQ", data, pos)
    pos += 12
    for _ in range(count):
        pos = end_of_value(data, pos, element)
    return pos


def tokenizer_pairs(data):
    """The bytes of each metadata pair that tokenizers read."""
    pos = 24
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        begin = pos
        pos = end_of_value(data, pos, STRING)
        key = data[begin + 8 : pos].decode()
        kind = struct.unpack_from("<I", data, pos)[0]
        pos = end_of_value(data, pos + 4, kind)
        if key.startswith("tokenizer.ggml."):
            yield data[begin:pos]


def main():
    source = pathlib.Path(sys.argv[1]) / "golden"
    target = pathlib.Path(__file__).parent
    for name in sys.argv[2:]:
        pairs = list(tokenizer_pairs((source / name / "model.gguf").read_bytes()))
        header = b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs))
        (target / f"{name}.gguf").write_bytes(header + b"".join(pairs))
        shutil.copyfile(source / name / "tokenize.json", target / f"{name}.json")
        (target / f"{name}.json").chmod(0o644)


main()
