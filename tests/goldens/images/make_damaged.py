#!/usr/bin/env python3
"""Writes the damaged image files that decoding is tested with, from the sound ones beside this: refused/ holds those that must
be refused, read/ those that are read although something in them is wrong. Python's standard library only."""
import pathlib
import struct
import zlib

HERE = pathlib.Path(__file__).parent
REFUSED, READ = {}, {}


def sound(name):
    return (HERE / name).read_bytes()


def replaced(data, at, new):
    return data[:at] + new + data[at + len(new):]


def part(data, share):
    return data[:int(share * len(data))]


# --- PNG: chunks of length, name, data, checksum after a signature of 8 bytes

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name, data, crc=None):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) if crc is None else crc)


def png(width=4, height=4, bits=8, colour=2, rows=None, *, before=b"", data=None, end=chunk(b"IEND", b"")):
    rows = (b"\0" + b"\x55" * (3 * width)) * height if rows is None else rows
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + before + (chunk(b"IDAT", zlib.compress(rows)) if data is None else data) + end


small = b"\0" * 16
REFUSED |= {
    "signature-only.png": SIGNATURE,
    "header-cut.png": png()[:20],
    "data-cut.png": part(sound("rgb.png"), 0.8),
    "16-bits-cut.png": part(sound("rgb16.png"), 0.6),
    "interlaced-cut.png": part(sound("interlaced.png"), 0.6),
    "palette-cut.png": part(sound("palette.png"), 0.5),
    "checksum-of-header.png": replaced(png(), 29, b"\0\0\0\0"),
    "no-data.png": png(data=b""),
    "no-palette.png": png(colour=3, rows=(b"\0" * 5) * 4),
    "width-0.png": png(width=0, rows=small),
    "height-0.png": png(height=0, rows=small),
    "width-negative.png": png(width=0xffffffff, rows=small),
    "side-too-long.png": png(width=40_000, height=1, rows=small),
    "two-thousand-megapixels.png": png(width=0x7fff, height=0x7fff, rows=small),
    "bomb.png": png(width=8_000, height=8_000, bits=1, colour=0, rows=(b"\0" * 1_001) * 8_000),
    "bits-3.png": png(bits=3),
    "colour-type-5.png": png(colour=5),
    "not-deflated.png": png(data=chunk(b"IDAT", b"these are no deflated rows")),
    "rows-missing.png": png(rows=b"\0" + b"\x55" * 12),
    "filter-9.png": png(rows=(b"\x09" + b"\x55" * 12) * 4),
    "chunk-too-long.png": png(data=struct.pack(">I", 0x7fffffff) + b"IDAT" + b"\0" * 20),
    "no-header.png": SIGNATURE + chunk(b"IDAT", zlib.compress(small)) + chunk(b"IEND", b""),
}
READ |= {
    "checksum-of-comment.png": png(before=chunk(b"tEXt", b"Comment\0hm", crc=1)),
    "rows-too-many.png": png(rows=(b"\0" + b"\x55" * 12) * 9),
    "no-end.png": png(end=b""),
    "exif-nonsense.png": png(before=chunk(b"eXIf", b"II*\0\xff\xff\xff\xff")),
    "bytes-after-the-end.png": png() + b"more" * 50,
}

# --- JPEG: segments of 0xff, a marker, a length


def segments(data):
    """(marker, begin, end) of each up to the first scan."""
    at = 2
    while True:
        end = at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        yield data[at + 1], at, end
        if data[at + 1] == 0xda:
            return
        at = end


def without(data, *markers):
    kept, last = data[:2], 2
    for marker, begin, end in segments(data):
        kept, last = kept + (b"" if marker in markers else data[begin:end]), end
    return kept + data[last:]


def frame(data, height, width):
    marker, begin, _ = next(s for s in segments(data) if s[0] in (0xc0, 0xc2))
    return replaced(data, begin + 5, struct.pack(">HH", height, width))


def with_exif(tiff):
    data = b"Exif\0\0" + tiff
    return baseline[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data + baseline[2:]


def turned(n):
    return b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + struct.pack(">H", n) + b"\0\0\0\0\0\0"


baseline, progressive = sound("baseline.jpg"), sound("progressive.jpg")
first = next(end for _, _, end in segments(baseline))
scan = next(begin for marker, begin, _ in segments(progressive) if marker == 0xda)
REFUSED |= {
    "signature-only.jpg": b"\xff\xd8\xff",
    "tables-cut.jpg": part(baseline, 0.3),
    "scan-cut.jpg": baseline[:next(b for m, b, _ in segments(baseline) if m == 0xda) + 4],
    "progressive-cut.jpg": progressive[:scan + 3],
    "cmyk-cut.jpg": part(sound("cmyk.jpg"), 0.3),
    "no-frame.jpg": without(baseline, 0xc0),
    "no-scan.jpg": baseline[:next(b for m, b, _ in segments(baseline) if m == 0xda)] + b"\xff\xd9",
    "no-quantisation.jpg": without(baseline, 0xdb),
    "height-0.jpg": frame(baseline, 0, 13),
    "four-thousand-megapixels.jpg": frame(baseline, 65_535, 65_535),
    "fifty-scans-of-36-megapixels.jpg": frame(progressive[:-2] + progressive[scan:-2] * 50 + b"\xff\xd9", 6_000, 6_000),
    "segment-length-0.jpg": baseline[:2] + b"\xff\xe0\0\0" + baseline[2:],
    "segment-past-the-end.jpg": baseline[:-2] + b"\xff\xe1\xff\xff",
}
READ |= {
    "exif-past-the-end.jpg": with_exif(b"II*\0\xf0\xff\xff\xff"),
    "exif-entries-missing.jpg": with_exif(b"MM\0*\0\0\0\x08\xff\xff"),
    "exif-orientation-9.jpg": with_exif(turned(9)),
    "exif-of-a-third-order.jpg": with_exif(b"XX*\0" + turned(6)[4:]),
    "bytes-between-segments.jpg": baseline[:first] + b"\0\0\0" + baseline[first:],
}

# --- WebP: RIFF chunks


def riff(*chunks):
    body = b"WEBP" + b"".join(name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def extended(flags, width, height):
    return b"VP8X", bytes([flags, 0, 0, 0]) + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]


lossless, lossy = sound("lossless.webp"), sound("lossy.webp")
REFUSED |= {
    "signature-only.webp": lossless[:12],
    "lossless-cut.webp": part(lossless, 0.7),
    "lossy-cut.webp": part(lossy, 0.5),
    "transparent-cut.webp": part(sound("rgba.webp"), 0.6),
    "animated-cut.webp": part(sound("animated.webp"), 0.2),
    "length-shorter.webp": replaced(lossless, 4, struct.pack("<I", 12)),
    "lossless-mark-wrong.webp": replaced(lossless, 20, b"\0"),
    "lossy-start-wrong.webp": replaced(lossy, 23, b"\0\0\0"),
    "unknown-chunk.webp": riff((b"JUNK", b"\0" * 40)),
    "canvas-without-picture.webp": riff(extended(0, 100, 100)),
    "animation-without-frames.webp": riff(extended(2, 100, 100), (b"ANIM", b"\0" * 6)),
    "canvas-too-large.webp": riff(extended(2, 1 << 24, 1 << 24), (b"ANIM", b"\0" * 6)),
}

# --- GIF: a canvas, colours, blocks


def gif(width=4, height=4, *, colours=b"\0\0\0\xff\xff\xff", left=0, top=0, w=4, h=4, code_bits=2, data=None, end=b";"):
    flags = 0x80 if colours else 0
    lzw = b"\x08\x84\x51\x05\0" if data is None else data
    picture = b"," + struct.pack("<HHHHB", left, top, w, h, 0) + bytes([code_bits]) + lzw
    return b"GIF89a" + struct.pack("<HHBBB", width, height, flags, 0, 0) + colours + picture + end


plain = sound("plain.gif")
REFUSED |= {
    "signature-only.gif": b"GIF89a",
    "colours-cut.gif": plain[:40],
    "data-cut.gif": part(plain, 0.7),
    "interlaced-cut.gif": part(sound("interlaced.gif"), 0.7),
    "animated-cut.gif": part(sound("animated.gif"), 0.3),
    "no-picture.gif": plain[:13 + 3 * 2 ** ((plain[10] & 7) + 1)] + b";",
    "no-colours.gif": gif(colours=b""),
    "outside-the-canvas.gif": gif(left=3),
    "canvas-too-large.gif": gif(width=65_535, height=65_535),
    "picture-too-large.gif": gif(w=65_535, h=65_535),
    "codes-of-13-bits.gif": gif(code_bits=13),
    "code-not-there.gif": gif(data=b"\x02\xff\xff\0"),
    "data-missing.gif": gif(data=b"\0"),
    "block-unknown.gif": plain[:13 + 3 * 2 ** ((plain[10] & 7) + 1)] + b"\x99\0;",
}

# --- Not what they say they are

REFUSED |= {
    "page.png": b"<!DOCTYPE html><title>404</title>",
    "zeros.jpg": b"\0" * 500,
    "empty.png": b"",
}

for folder, files in (("refused", REFUSED), ("read", READ)):
    (HERE / "damaged" / folder).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (HERE / "damaged" / folder / name).write_bytes(data)
