#!/usr/bin/env python3
"""Faults that people reported of other servers, tried on tempo9: images (group h).

    harness/image_reports.py [--binary PATH] [--only ID,ID] [--shared DIR]

Serves the small models of DIR/golden that have a projector, with towers exported from it: qwen2vl, and qwen35-vl, which has
recurrent layers. They are random, so an answer says nothing about a picture, but another picture gives another answer, and an
equal prompt an equal one to the bit. DIR defaults to ../shared. Prints a table as field_reports.py does.
"""
import argparse
import base64
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "harness" / "lib"))

from gguf_tokens import rename  # noqa: E402
from reports import report, try_all  # noqa: E402
from served import Served  # noqa: E402

IMAGES = ROOT / "tests/goldens/images"
NAMES = {500: "<|image_pad|>", 502: "<|vision_start|>", 503: "<|vision_end|>"}


def png(width, height, colour=(200, 40, 40)):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = (b"\0" + bytes(colour) * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def part(image, kind="image/png"):
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64," + base64.b64encode(image).decode()}}


def user(*images, text="which colour?"):
    return {"role": "user", "content": [*map(part, images), {"type": "text", "text": text}]}


class Server:
    def __init__(self, binary, model, *flags):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.served = Served(binary, model, self.log.name, *flags)
        self.url = self.served.url

    def stop(self):
        self.served.stop()

    def post(self, body, path="/v1/chat/completions"):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, text

    def ask(self, *messages, max_tokens=12):
        """(text, prompt tokens, cached tokens)."""
        status, answer = self.post({"messages": list(messages), "temperature": 0, "max_tokens": max_tokens})
        assert status == 200, f"{status}: {answer}"
        usage = answer["usage"]
        return (answer["choices"][0]["message"]["content"], usage["prompt_tokens"],
                usage["prompt_tokens_details"]["cached_tokens"])


class World:
    """The models with their towers, in a folder of their own."""

    def __init__(self, binary, shared, folder):
        self.binary, self.folder, self.text_model = binary, folder, shared / "golden/qwen2/model.gguf"
        for name in ("qwen2vl", "qwen35-vl"):
            golden = shared / "golden" / name
            rename(golden / "model.gguf", folder / f"{name}.gguf", NAMES)
            subprocess.run([binary, "tower", "export", golden / "mmproj.gguf", "--out", folder / name, "--weights", "f32"],
                           check=True, capture_output=True)

    def start(self, name, *flags):
        return Server(self.binary, self.folder / f"{name}.gguf", "--tower", self.folder / name, "--max-length", "4096",
                      "--chat-template", ROOT / "harness/lib/plain.jinja", *flags)

    def cold(self, name, *messages):
        """The answer of a server that has seen nothing."""
        server = self.start(name)
        try:
            return server.ask(*messages)
        finally:
            server.stop()


@report("H01", "the same text about a red and a blue square, both orders, 20 pairs")
def h01(w, q, h):
    red, blue = (200, 40, 40), (40, 40, 200)
    expected = {colour: w.cold("qwen2vl", user(png(64, 64, colour)))[0] for colour in (red, blue)}
    assert expected[red] != expected[blue]
    for pair in range(20):
        for colour in (red, blue) if pair % 2 else (blue, red):
            text, _, cached = q.ask(user(png(64, 64, colour)))
            assert text == expected[colour], f"pair {pair}: {text!r} instead of {expected[colour]!r}"
            assert pair == 0 or cached > 0


@report("H03", "12 turns of text and image in turn on recurrent layers, then another first turn")
def h03(w, q, h):
    def turns(first):
        messages = [user(png(48, 48, first))]
        for i in range(11):
            messages.append({"role": "assistant", "content": f"Answer {i}."})
            messages.append({"role": "user", "content": f"and {i}?"} if i % 2 == 0 else user(png(32 + 8 * i, 40, (10 * i, 99, 7))))
            yield list(messages)
    first = list(turns((10, 200, 30)))
    for messages in first:
        h.ask(*messages)
    edited = list(turns((10, 30, 200)))[-1]
    text, _, cached = h.ask(*edited)
    assert cached < 40, f"{cached} tokens were reused behind another image"
    assert text == w.cold("qwen35-vl", *edited)[0]
    text, prompt, cached = h.ask(*first[-1])
    assert text == w.cold("qwen35-vl", *first[-1])[0]
    assert cached > 0.8 * prompt, (cached, prompt)


@report("H04", "formats, turned and cut files, wrong labels, 1 pixel and 20,000")
def h04(w, q, h):
    for path in sorted(IMAGES.iterdir()):
        if path.suffix not in (".png", ".jpg", ".gif", ".webp"):
            continue
        whole = path.read_bytes()
        for kind in ("image/png", "image/heic", "application/octet-stream"):
            status, answer = q.post({"messages": [{"role": "user", "content": [part(whole, kind)]}], "max_tokens": 1})
            is_thin = path.name == "long.png"
            assert status == 200 or (is_thin and status == 400), (path.name, kind, status, answer)
        for end in (0, 3, len(whole) // 2, len(whole) - 1):
            status, answer = q.post({"messages": [user(whole[:end])], "max_tokens": 1})
            assert status in (200, 400), (path.name, end, status)
            assert end > 3 or status == 400
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64)
    for name, data in (("HEIC", heic), ("BMP", b"BM" + bytes(60)), ("SVG", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
                       ("AVIF", b"\0\0\0\x18ftypavif\0\0\0\0mif1avif" + bytes(64)), ("TIFF", b"II*\0" + bytes(60))):
        status, answer = q.post({"messages": [user(data)], "max_tokens": 1})
        assert status == 400 and name in json.dumps(answer), (name, status, answer)
    assert q.ask(user(png(1, 1)))[0]
    for size in ((20000, 20000), (20000, 100)):
        status, answer = q.post({"messages": [user(png(*size))], "max_tokens": 1})
        assert status in (200, 400), (size, status, answer)
    assert q.ask(user(png(64, 64)))[0]


@report("H06", "a screenshot in a tool's result, in each dialect that has them")
def h06(w, q, h):
    def anthropic(image):
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image).decode()}
        return {"max_tokens": 12, "temperature": 0, "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "shot", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "text", "text": "here"}, {"type": "image", "source": source}]}]}]}

    def openai(image):
        return {"max_tokens": 12, "temperature": 0, "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "tool_calls": [{"id": "t", "type": "function", "function": {"name": "shot", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "t", "content": [{"type": "text", "text": "here"}, part(image)]}]}
    for path, body in (("/v1/messages", anthropic), ("/v1/chat/completions", openai)):
        texts = []
        for colour in ((200, 40, 40), (40, 40, 200)):
            status, answer = q.post(body(png(64, 64, colour)), path)
            assert status == 200, (path, status, answer)
            texts.append(json.dumps(answer.get("content") or answer["choices"][0]["message"]["content"]))
        assert texts[0] != texts[1], f"{path}: the picture makes no difference"


@report("H08", "all sizes from 1 to 200 pixels in steps of 13, and sides of 1 to 200")
def h08(w, q, h):
    sizes = [(a, b) for a in range(1, 201, 13) for b in range(1, 201, 13)]
    sizes += [(161, 184), (2000, 10), (10, 2000), (2800, 14), (3000, 14)]
    n_refused = 0
    for size in sizes:
        status, answer = q.post({"messages": [user(png(*size))], "max_tokens": 1})
        n_refused += status == 400
        is_thin = max(size) > 200 * min(size)
        assert status == 200 or (status == 400 and is_thin), (size, status, answer)
    assert n_refused <= 2, n_refused


@report("H10", "speed of reading text before and after an image")
def h10(w, q, h):
    def rate(seed):
        text = " ".join(f"w{seed}x{i}" for i in range(400))  # some 3500 tokens of a window of 4096
        began = time.perf_counter()
        tokens = q.ask({"role": "user", "content": text}, max_tokens=1)[1]
        return tokens / (time.perf_counter() - began)
    rate("warm")
    before = statistics.median(rate(f"a{i}") for i in range(7))
    q.ask(user(png(128, 96)))
    after = statistics.median(rate(f"b{i}") for i in range(7))
    assert after > 0.85 * before, f"{after:.0f} tokens per second, {before:.0f} before"


@report("H12", "an image where there is no tower: four dialects, counting, capabilities")
def h12(w, q, h):
    server = Server(w.binary, w.text_model, "--max-length", "512", "--chat-template", ROOT / "harness/lib/plain.jinja")
    try:
        data = base64.b64encode(png(8, 8)).decode()
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        message = {"max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
        for path, body in (("/v1/chat/completions", {"messages": [user(png(8, 8))]}),
                           ("/v1/responses", {"input": [{"role": "user", "content": [
                               {"type": "input_image", "image_url": "data:image/png;base64," + data}]}]}),
                           ("/v1/messages", message), ("/v1/messages/count_tokens", message),
                           ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": [data]}]}),
                           ("/api/generate", {"prompt": "x", "images": [data]})):
            status, answer = server.post(body, path)
            assert status == 400 and "--tower" in json.dumps(answer), (path, status, answer)
        assert "vision" not in server.post({"model": "any"}, "/api/show")[1]["capabilities"]
        assert "vision" in q.post({"model": "any"}, "/api/show")[1]["capabilities"]
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/release/bin/tempo9", type=pathlib.Path)
    parser.add_argument("--shared", default=ROOT.parent / "shared", type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["AS_KV_OFFLOAD"] = "0"  # a cold server has seen nothing, on disk either
    with tempfile.TemporaryDirectory() as folder:
        world = World(options.binary, options.shared, pathlib.Path(folder))
        q, h = world.start("qwen2vl"), world.start("qwen35-vl")
        n_failed = try_all(options.only, world, q, h)
        q.stop()
        h.stop()
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
