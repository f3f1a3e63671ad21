#!/usr/bin/env python3
"""Writes the small image files that the decoders are tested with, each beside its pixels (.ppm) as Pillow reads them.
Needs Pillow. What Pillow cannot write (16 bits a channel, interlaced PNG) is written here, and so are its pixels."""
import pathlib
import struct
import zlib

from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).parent
W, H = 13, 9


def pixel(x, y):
    return (x * 19, y * 28, (x * 7 + y * 13) % 256)


def pattern():
    image = Image.new("RGB", (W, H))
    image.putdata([pixel(x, y) for y in range(H) for x in range(W)])
    return image


def keep(name, expected=None):
    if expected is None:
        with Image.open(HERE / name) as file:
            file.seek(0)
            expected = ImageOps.exif_transpose(file).convert("RGB")
    expected.save(HERE / (name + ".ppm"))


def save(name, image, expected=None, **options):
    image.save(HERE / name, **options)
    keep(name, expected)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_png(name, bits, colour, scanlines, interlaced=False):
    head = struct.pack(">IIBBBBB", W, H, bits, colour, 0, 0, int(interlaced))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(scanlines)) + chunk(b"IEND", b"")
    (HERE / name).write_bytes(data)
    keep(name, pattern())


def adam7():
    out = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for y in range(y0, H, dy):
            if row := b"".join(bytes(pixel(x, y)) for x in range(x0, W, dx)):
                out += b"\0" + row
    return out


rgb = pattern()
alpha = rgb.copy()
alpha.putalpha(Image.linear_gradient("L").resize((W, H)))
save("rgb.png", rgb)
save("rgba.png", alpha, rgb)
save("grey.png", rgb.convert("L"))
save("bits.png", rgb.convert("1"))
save("palette.png", rgb.quantize(16))
save("palette-transparent.png", rgb.quantize(16), transparency=3)
write_png("rgb16.png", 16, 2, b"".join(
    b"\0" + b"".join(struct.pack(">H", v * 257) for x in range(W) for v in pixel(x, y)) for y in range(H)))
write_png("interlaced.png", 8, 2, adam7(), interlaced=True)
save("animated.png", rgb, rgb, save_all=True, append_images=[Image.new("RGB", (W, H), "red")])
save("baseline.jpg", rgb, quality=95, subsampling=0)
save("progressive.jpg", rgb, quality=90, progressive=True)
save("grey.jpg", rgb.convert("L"), quality=90)
save("cmyk.jpg", rgb.convert("CMYK"), quality=95)
for turn in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = turn
    save(f"turned-{turn}.jpg", rgb, quality=95, subsampling=0, exif=exif)
exif = Image.Exif()
exif[0x0112] = 6
save("turned-6.png", rgb, exif=exif)
save("turned-6.webp", rgb, exif=exif, lossless=True)
save("lossless.webp", rgb, lossless=True)
save("lossy.webp", rgb, quality=80)
save("rgba.webp", alpha, rgb, lossless=True, exact=True)
save("animated.webp", rgb, rgb, save_all=True, append_images=[Image.new("RGB", (W, H), "red")], lossless=True)
save("plain.gif", rgb, interlace=False)
save("1x1.png", Image.new("RGB", (1, 1), (1, 2, 3)))
Image.new("RGB", (20000, 2), "blue").save(HERE / "long.png")
save("interlaced.gif", rgb, interlace=True)
save("animated.gif", rgb, save_all=True, append_images=[Image.new("RGB", (W, H), "red")])
