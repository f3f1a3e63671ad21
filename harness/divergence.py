#!/usr/bin/env python3
"""How far the CPU backend's predictions are from exact ones: mean KL divergence, in nats per token, from the reference
backend (plain float arithmetic on the same file), over a text. Or, with --against f16, how far they are from its own
with keys and values of that type: what another type costs by itself.

    harness/divergence.py [FILE.gguf …]     default: both small models from PyPI
    options: --text FILE (docs of this repository)  --bytes N (20000)  --window TOKENS (256)
             --kv-types f16,q8_0,f32  --against reference|f16|q8_0|f32 (reference)
             --binary PATH (build/release/bin/tempo9)  --folder FOLDER (for the logits; a temporary one)

The text is cut into windows that are read apart, each from an empty context. A line per KV type: the mean over all
tokens, the worst window, and how often both sides find the same token most likely.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXTS = ("docs/architecture.md", "docs/decisions/numeric-contract.md", "docs/decisions/prefix-reuse.md",
         "docs/decisions/speculation.md", "docs/kv-cache-format.md", "docs/graph-format.md", "docs/clients.md")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--text")
    parser.add_argument("--bytes", type=int, default=20000)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--kv-types", default="f16,q8_0,f32")
    parser.add_argument("--against", default="reference")
    parser.add_argument("--binary", default=ROOT / "build/release/bin/tempo9")
    parser.add_argument("--folder")
    return parser.parse_args()


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"divergence: {command[1]} failed:\n{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


def read_text(options):
    paths = [pathlib.Path(options.text)] if options.text else [ROOT / path for path in TEXTS]
    text = b"".join(path.read_bytes() for path in paths)[: options.bytes]
    return text.decode(errors="ignore").encode()


def windows_of(model, options):
    tokens = json.loads(run([options.binary, "tokenize", "--gguf", model], read_text(options)))
    return [tokens[i : i + options.window] for i in range(0, len(tokens), options.window)]


def compare(model, window, kv_types, options, folder):
    """One report of `tempo9 eval` per KV type."""
    tokens = folder / "tokens.json"
    tokens.write_text(json.dumps({"tokens": window, "rows": list(range(len(window)))}))
    evaluate = [options.binary, "eval", "--gguf", model, "--tokens", tokens]
    side = ["--backend", "reference"] if options.against == "reference" else ["--kv-type", options.against]
    run([*evaluate, *side, "--logits", folder / "logits.f32"])
    return {kv: json.loads(run([*evaluate, "--kv-type", kv, "--expect", tokens])) for kv in kv_types}


def report(model, options, folder):
    kv_types = options.kv_types.split(",")
    windows = windows_of(model, options)
    results = []
    for index, window in enumerate(windows):
        print(f"\r  window {index + 1} of {len(windows)} ", end="", file=sys.stderr, flush=True)
        results.append(compare(model, window, kv_types, options, folder))
    print("\r", end="", file=sys.stderr)
    n_rows = sum(map(len, windows))
    print(f"{pathlib.Path(model).name}, {n_rows} tokens in windows of {options.window}, against {options.against}")
    for kv in kv_types:
        rows = [result[kv] for result in results]
        mean = sum(r["mean_kl"] * r["argmax_rows"] for r in rows) / n_rows
        same = sum(r["argmax_equal"] for r in rows) / n_rows
        print(f"  KV {kv:5} mean KL {mean:.6f}   worst window {max(r['mean_kl'] for r in rows):.6f}   "
              f"same most likely token {100 * same:.2f} %")


def main():
    options = arguments()
    models = options.models or [
        subprocess.run([ROOT / "scripts/fetch-model", name], check=True, capture_output=True, text=True).stdout.strip()
        for name in ("smollm2", "gemma3")]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for model in models:
            report(model, options, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
