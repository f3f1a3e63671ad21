#!/usr/bin/env python3
"""The first request after a restart, with the disk cache kept, and with its folder wiped as a control.

    bench/agents/restart.py [--model FILE.gguf] [--system-tokens 1500] [--rounds 3] [--binary PATH]

Each round: a server reads a prompt cold and ends; the next one is sent the same prompt; the folder is wiped and a third one
is sent it too. Prints the times to first token, their ratio, and the counters of what was restored.
"""
import argparse
import shutil
import tempfile
import time

from client import BINARY, Server, chat, default_model, percentile, words


def ask(server, text):
    return chat(server.url, [{"role": "system", "content": text}, {"role": "user", "content": "Begin."}], 8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--system-tokens", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="", help="further flags of the server")
    options = parser.parse_args()
    model = options.model or default_model()
    ratios = []
    for number in range(options.rounds):
        # About 1.2 tokens a word; what it is exactly is printed.
        text = words(round(options.system_tokens / 1.2), (time.time_ns(), number))
        with tempfile.TemporaryDirectory() as cache:
            start = lambda: Server(model, *options.flags.split(), binary=options.binary, cache=cache)
            with start() as server:
                chat(server.url, [{"role": "user", "content": "Hello."}], 4)  # so that neither pays for first touches
                cold = ask(server, text)
            with start() as server:
                chat(server.url, [{"role": "user", "content": "Hello."}], 4)
                kept = ask(server, text)
                metrics = server.metrics()
            shutil.rmtree(f"{cache}/tempo9/kv")
            with start() as server:
                chat(server.url, [{"role": "user", "content": "Hello."}], 4)
                wiped = ask(server, text)
        if not (cold.text == kept.text == wiped.text):
            raise SystemExit("restart: the answers differ")
        ratios.append(cold.ttft / kept.ttft)
        print(f"round {number + 1}: {cold.usage['prompt_tokens']} tokens; cold {cold.ttft:.3f} s, kept {kept.ttft:.3f} s "
              f"({kept.cached} cached, {metrics['tempo9_kv_restored_tokens_total']:.0f} restored in "
              f"{metrics['tempo9_kv_restored_spans_total']:.0f} spans), wiped {wiped.ttft:.3f} s ({wiped.cached} cached); "
              f"cold / kept {ratios[-1]:.1f}", flush=True)
    print(f"cold / kept over {len(ratios)} rounds: {percentile(ratios, 50):.1f} (median)")


if __name__ == "__main__":
    main()
