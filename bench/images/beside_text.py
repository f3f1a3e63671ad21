#!/usr/bin/env python3
"""Decoding beside images that are encoded: what running streams lose, what images lose, and what a picture seen again costs.

    bench/images/beside_text.py --model MODEL.gguf --tower DIR [--binary PATH] [--streams N,N (1,4)] [--images N (6)]
                                [--size PIXELS (1000)] [--flags "..."] [--json]

Any model with its tower does; of a real size with random weights, which is all that times need:

    build/bench/bin/make_model qwen3-vl-2b q4_k_m vl.gguf --tokenizer FILE_OF_QWEN3.gguf
    build/bench/bin/tower_bench make mmproj.gguf && build/release/bin/tempo9 tower export mmproj.gguf --out tower

First images come alone. Then streams run, and each round is as long without an image as with one: ratios are taken within
a round. Wanted (spec performance, section 13): at least half of the tokens per second, no gap above 3 times the median one of
text alone, an image in at most twice its time alone, and nothing encoded twice. Prints each figure with its verdict.
"""
import argparse
import base64
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.request
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "agents"))

from client import BINARY, Server, chat, percentile  # noqa: E402


def screenshot(side, seed):
    """A PNG of coloured boxes, as a data URL; other seeds give other pictures."""
    rng = random.Random(seed)
    rows = [bytearray(b"\xf0" * 3 * side) for _ in range(side)]
    for _ in range(60):
        x, y, w, h = rng.randrange(side), rng.randrange(side), rng.randrange(8, side // 2), rng.randrange(4, side // 4)
        colour = bytes(rng.randrange(256) for _ in range(3))
        for row in rows[y:y + h]:
            row[3 * x:3 * min(side, x + w)] = colour * (min(side, x + w) - x)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 6)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunk(b"IDAT", data)
    return "data:image/png;base64," + base64.b64encode(png + chunk(b"IEND", b"")).decode()


def words_alone(binary, model):
    """A bias that leaves the model only some whole words: of random bytes a reader sees every second token or so, when a
    character is complete, and an end token would end the stream."""
    tokens = subprocess.run([binary, "tokenize", "--gguf", model], input="the a of to in", capture_output=True, text=True,
                            check=True)
    return {str(token): 100 for token in json.loads(tokens.stdout)}


class Streams:
    """Answers that are written until the block ends; knows when each token came."""

    def __init__(self, url, n, bias):
        self.url, self.times, self.stopping, self.bias = url, [[] for _ in range(n)], False, bias
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(n)]

    def run(self, i):
        class Stop(Exception):
            pass

        def on_token(_):
            self.times[i].append(time.perf_counter())
            if self.stopping:
                raise Stop
        turn = 0
        while not self.stopping:
            turn += 1
            try:
                answer = chat(self.url, [{"role": "user", "content": f"Stream {i}, turn {turn}: write on and on."}], 4000,
                              on_token=on_token, logit_bias=self.bias)
            except Stop:
                return
            if answer.error:
                raise SystemExit(f"beside_text: {answer.status} {answer.error[:500]}")
            self.times[i].append(None)  # what lies between two answers is no gap

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        while any(len(times) < 8 for times in self.times):
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()

    def rate(self, begin, end):
        return sum(t is not None and begin <= t < end for times in self.times for t in list(times)) / (end - begin)

    def gaps(self, begin, end):
        gaps = []
        for times in self.times:
            for a, b in zip(list(times), list(times)[1:]):
                if a is not None and b is not None and b >= begin and a < end:
                    gaps.append(b - a)
        return gaps


class Looker:
    """Sends images, each with a question of one token."""

    def __init__(self, server, side):
        self.server, self.side, self.seed = server, side, 0

    def look(self, url):
        """(seconds to the answer, seconds of encoding, images encoded)."""
        before = self.server.metrics()
        began = time.perf_counter()
        body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}},
                                                          {"type": "text", "text": "What is this?"}]}],
                "max_tokens": 1, "temperature": 0}
        request = urllib.request.Request(self.server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            usage = json.load(reply)["usage"]
        seconds = time.perf_counter() - began
        after = self.server.metrics()
        self.prompt_tokens = usage["prompt_tokens"]
        return (seconds, after["tempo9_image_encode_seconds_total"] - before["tempo9_image_encode_seconds_total"],
                after["tempo9_images_encoded_total"] - before["tempo9_images_encoded_total"])

    def look_at_a_new_one(self):
        self.seed += 1
        return self.look(screenshot(self.side, self.seed))


def quartiles(values):
    ordered = sorted(values)
    if len(ordered) < 2:
        return [ordered[0]] * 3
    return statistics.quantiles(ordered, n=4, method="inclusive")


def measure(server, n_streams, options):
    looker = Looker(server, options.size)
    looker.look_at_a_new_one()  # pages and caches are warm after it
    server.wait_for_tiles()
    alone = [looker.look_at_a_new_one() for _ in range(options.images)]
    beside, rates, text_gaps, encode_gaps, read_gaps = [], [], [], [], []
    pictures = [screenshot(options.size, f"busy {n_streams} {i}") for i in range(options.images)]
    with Streams(server.url, n_streams, words_alone(options.binary, options.model)) as streams:
        for picture in pictures:
            begin = time.perf_counter()
            time.sleep(max(2.0, statistics.median(a[0] for a in alone)))
            middle = time.perf_counter()
            beside.append(looker.look(picture))
            end = time.perf_counter()
            time.sleep(0.5)
            rates.append((streams.rate(begin, middle), streams.rate(middle, end)))
            text_gaps += streams.gaps(begin, middle)
            encoded = middle + beside[-1][1]  # about: looking at the file comes first
            encode_gaps += streams.gaps(middle, encoded)
            read_gaps += streams.gaps(encoded, end)
        again = [looker.look(picture) for picture in pictures]
    ratio = quartiles([with_image / text for text, with_image in rates])
    alone_s, beside_s = (statistics.median(x[0] for x in looks) for looks in (alone, beside))
    alone_encode, beside_encode = (statistics.median(x[1] for x in looks) for looks in (alone, beside))
    gap, image_gaps = statistics.median(text_gaps), encode_gaps + read_gaps
    return {"streams": n_streams, "images": options.images, "prompt_tokens": looker.prompt_tokens,
            "text_tok_s": statistics.median(r[0] for r in rates), "beside_tok_s": statistics.median(r[1] for r in rates),
            "rate_ratio": ratio, "gap_median_ms": 1000 * gap, "gap_p99_text_ms": 1000 * percentile(text_gaps, 99),
            "gap_p99_beside_ms": 1000 * percentile(image_gaps, 99), "gap_max_text": max(text_gaps) / gap,
            "gap_max_beside": max(image_gaps) / gap, "gap_max_encoding": max(encode_gaps) / gap,
            "gap_max_reading": max(read_gaps, default=0.0) / gap, "image_alone_s": alone_s, "image_beside_s": beside_s,
            "image_ratio": beside_s / alone_s, "encode_alone_s": alone_encode, "encode_beside_s": beside_encode,
            "encode_ratio": beside_encode / alone_encode, "again_s": statistics.median(x[0] for x in again),
            "again_encoded": sum(x[2] for x in again)}


def show(r):
    def line(text, is_met):
        print(f"  {'met ' if is_met else 'MISS'}  {text}", flush=True)
    print(f"{r['streams']} streams, {r['images']} images of {r['prompt_tokens']} tokens with their question")
    line(f"tokens per second beside an image: {r['rate_ratio'][1]:.2f} of text alone ({r['rate_ratio'][0]:.2f} to "
         f"{r['rate_ratio'][2]:.2f}; {r['beside_tok_s']:.1f} of {r['text_tok_s']:.1f}); wanted 0.5", r["rate_ratio"][1] >= 0.5)
    line(f"longest gap: {r['gap_max_beside']:.1f} median ones of {r['gap_median_ms']:.1f} ms (p99 {r['gap_p99_beside_ms']:.1f} ms; "
         f"while encoding {r['gap_max_encoding']:.1f}, while its prompt is read {r['gap_max_reading']:.1f}; text alone: "
         f"{r['gap_max_text']:.1f}, p99 {r['gap_p99_text_ms']:.1f} ms); wanted 3", r["gap_max_beside"] <= 3)
    line(f"an image answered after {r['image_beside_s']:.2f} s, alone {r['image_alone_s']:.2f} s: {r['image_ratio']:.2f}; "
         f"encoding {r['encode_beside_s']:.2f} s, alone {r['encode_alone_s']:.2f} s: {r['encode_ratio']:.2f}; wanted 2",
         max(r["image_ratio"], r["encode_ratio"]) <= 2)
    line(f"seen again: {r['again_encoded']:.0f} of {r['images']} encoded again, answered after {r['again_s']:.2f} s; wanted 0",
         r["again_encoded"] == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tower", required=True)
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--streams", default="1,4")
    parser.add_argument("--images", type=int, default=6)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--flags", default="")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    for n_streams in map(int, options.streams.split(",")):
        with Server(options.model, "--tower", options.tower, "--chat-template", "chatml", *options.flags.split(),
                    binary=options.binary, AS_KV_OFFLOAD="0") as server:
            results.append(measure(server, n_streams, options))
        if not options.json:
            show(results[-1])
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
