#!/usr/bin/env python3
"""Logits of this model for a prompt with an image, whose rows see each other in both directions: written from the formulas
(spec models 8.3 and 13.4) in numpy, in f64, with the values of the file. Writes whole_image_expect.json, whole_image_embeddings.f32 and
whole_image_logits.f32 here.

    make_whole_image.py
"""
import json
import pathlib
import struct

import numpy as np

FOLDER = pathlib.Path(__file__).parent
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
PLACEHOLDER, BEGIN, ROWS, TOKENS = 500, 21, 30, 70


class File:
    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 8
        n_tensors, n_values = self.number("Q"), self.number("Q")
        self.meta = {}
        for _ in range(n_values):
            key = self.text()
            self.meta[key] = self.value(self.number("I"))
        infos = []
        for _ in range(n_tensors):
            name = self.text()
            shape = [self.number("Q") for _ in range(self.number("I"))]
            infos.append((name, shape, self.number("I"), self.number("Q")))
        begin = -(-self.at // self.meta.get("general.alignment", 32)) * self.meta.get("general.alignment", 32)
        self.tensors = {name: self.tensor(begin + offset, shape, kind) for name, shape, kind, offset in infos}

    def number(self, kind):
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += struct.calcsize(kind)
        return value

    def text(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode(errors="replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, n = self.number("I"), self.number("Q")
            return [self.value(element) for _ in range(n)]
        return self.number(SCALARS[kind])

    def tensor(self, at, shape, kind):
        n = int(np.prod(shape))
        if kind == 0:
            flat = np.frombuffer(self.data, "<f4", n, at)
        else:
            assert kind == 30, kind  # BF16
            flat = (np.frombuffer(self.data, "<u2", n, at).astype("u4") << 16).view("f4")
        return flat.astype("f8").reshape(shape[::-1])


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rope(x, positions, base, factor):
    half = x.shape[-1] // 2
    angles = positions[:, None] / factor * base ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def forward(file, tokens, image_begin=0, image=()):
    """Logits of all rows; `image`: rows that stand in the place of tokens."""
    n, image_end = len(tokens), image_begin + len(image)
    meta = {key.removeprefix("gemma3."): value for key, value in file.meta.items()}
    t = file.tensors
    d, n_layers, eps = meta["embedding_length"], meta["block_count"], meta["attention.layer_norm_rms_epsilon"]
    n_heads, n_kv = meta["attention.head_count"], meta["attention.head_count_kv"]
    head = meta.get("attention.key_length", d // n_heads)
    window, period = meta["attention.sliding_window"], meta.get("attention.sliding_window_pattern", 6)
    x = t["token_embd.weight"][tokens] * np.sqrt(d)
    if len(image):
        x[image_begin:image_end] = image
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    in_image = (i >= image_begin) & (i < image_end) & (j >= image_begin) & (j < image_end)
    for layer in range(n_layers):
        def w(name):
            return t[f"blk.{layer}.{name}.weight"]
        is_sliding = period[layer] if isinstance(period, list) else (layer + 1) % period != 0
        base = meta.get("rope.freq_base_swa", meta.get("rope.local.freq_base", 10000.0)) if is_sliding else meta.get("rope.freq_base", 10000.0)
        factor = 1.0 if is_sliding else meta.get("rope.scaling.factor", 1.0)
        h = norm(x, w("attn_norm"), eps)
        q = norm((h @ w("attn_q").T).reshape(n, n_heads, head), w("attn_q_norm"), eps)
        k = norm((h @ w("attn_k").T).reshape(n, n_kv, head), w("attn_k_norm"), eps)
        v = (h @ w("attn_v").T).reshape(n, n_kv, -1)
        positions = np.arange(n, dtype=float)
        q, k = rope(q, positions, base, factor), rope(k, positions, base, factor)
        visible = (j <= i) & ((i - j < window) if is_sliding else True) | in_image
        out = []
        for m in range(n_heads):
            scores = q[:, m] @ k[:, m * n_kv // n_heads].T / np.sqrt(head)
            scores = np.where(visible, scores, -np.inf)
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out.append(p / p.sum(-1, keepdims=True) @ v[:, m * n_kv // n_heads])
        x = x + norm(np.concatenate(out, -1) @ w("attn_output").T, w("post_attention_norm"), eps)
        h = norm(x, w("ffn_norm"), eps)
        x = x + norm((gelu(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)) @ w("ffn_down").T, w("post_ffw_norm"), eps)
    logits = norm(x, t["output_norm.weight"], eps) @ t.get("output.weight", t["token_embd.weight"]).T
    cap = meta.get("final_logit_softcapping", 0.0)
    if cap:
        logits = cap * np.tanh(logits / cap)
    return logits


def main():
    file = File(FOLDER / "model.gguf")
    recorded = json.loads((FOLDER / "expect.json").read_text())
    expected = np.frombuffer((FOLDER / "logits.f32").read_bytes(), "<f4").reshape(len(recorded["rows"]), -1)
    error = forward(file, np.array(recorded["tokens"]))[recorded["rows"]] - expected
    assert np.sqrt((error ** 2).mean() / (expected ** 2).mean()) < 1e-5, "text alone is not as recorded"
    d = file.meta["gemma3.embedding_length"]
    rng = np.random.default_rng(5)
    tokens = rng.integers(3, 480, TOKENS)
    tokens[BEGIN:BEGIN + ROWS] = PLACEHOLDER
    image = rng.normal(0, 1, (ROWS, d)).astype("<f4")
    logits = forward(file, tokens, BEGIN, image)
    rows = [0, 20, 21, 30, 50, 51, 60, 69]
    (FOLDER / "whole_image_expect.json").write_text(json.dumps(
        {"tokens": tokens.tolist(), "rows": rows, "vocab": logits.shape[1], "image_token_id": PLACEHOLDER,
         "image_tokens": ROWS, "embedding_width": d, "grid_h": 5, "grid_w": ROWS // 5}) + "\n")
    (FOLDER / "whole_image_embeddings.f32").write_bytes(image.tobytes())
    (FOLDER / "whole_image_logits.f32").write_bytes(logits[rows].astype("<f4").tobytes())


if __name__ == "__main__":
    main()
