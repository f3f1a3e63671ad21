#!/usr/bin/env python3
"""Memory that no file stands behind: at start for several declared contexts, as tokens arrive, and after a load.

    bench/agents/memory.py [--model FILE.gguf] [--binary PATH] [--flags "…"]
"""
import argparse

from client import BINARY, Server, chat, default_model, in_threads, words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--flags", default="", help="further flags of the server")
    options = parser.parse_args()
    model = options.model or default_model()
    start = lambda length: Server(model, "--max-length", str(length), *options.flags.split(), binary=options.binary)

    at_start = []
    for length in (4096, 32768, 131072):
        with start(length) as server:
            server.wait_for_tiles()
            at_start.append(server.memory_mb())
        print(f"declared {length:6d}: {at_start[-1]:8.1f} MB at start", flush=True)
    print(f"spread {max(at_start) - min(at_start):.1f} MB")

    with start(32768) as server:
        chat(server.url, [{"role": "user", "content": words(20, "first")}], 8)
        server.wait_for_tiles()
        before = server.memory_mb()
        answer = chat(server.url, [{"role": "user", "content": words(4000, "one")}], 8)
        after = server.memory_mb()
        n_tokens = answer.usage["prompt_tokens"] + answer.usage["completion_tokens"]
        per_token = server.metrics().get("tempo9_kv_bytes_per_token")
        computed = f", computed {per_token / 1024:.1f} KiB" if per_token else ""
        print(f"{n_tokens} tokens: {before:.1f} to {after:.1f} MB, {1024 * (after - before) / n_tokens:.1f} KiB each{computed}",
              flush=True)
        in_threads([lambda n=n: chat(server.url, [{"role": "user", "content": words(2500, n)}], 64) for n in range(8)])
        print(f"after 8 prompts of about 3500 tokens: {server.memory_mb():.1f} MB", flush=True)
        for name, value in server.metrics().items():
            if "bytes" in name:
                print(f"  {name} {value / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
