#!/usr/bin/env python3
"""What a running stream feels when a long prompt arrives: gaps between its tokens before, while it is read, and after.

    bench/agents/stall.py --url URL [--prompt-tokens 10000] [--rounds 3] [--model NAME] [--ban 0,2]

--ban names token ids that the stream must not write, so that it does not end: those of the model's end tokens.
Prints, per round, the median gaps before and after, the median, p99 and longest gap while the long prompt is read, and
the ratio of that p99 to the median of the gaps before and after: the stream's own context grows meanwhile.
"""
import argparse
import threading
import time

from client import chat, percentile, text_of_tokens

ALONE = 48  # tokens of the stream before the prompt is sent, and after it was read


class Enough(Exception):
    pass


def one_round(options, number):
    long_text = text_of_tokens(options.url, options.prompt_tokens, f"{options.seed} {number}", options.model)
    window = {}
    started = threading.Event()

    def read_long_prompt():
        started.wait()
        window["begin"] = time.perf_counter()
        answer = chat(options.url, [{"role": "user", "content": long_text}], 1, options.model)
        window["end"] = time.perf_counter()
        window["prompt"] = answer.usage.get("prompt_tokens")

    thread = threading.Thread(target=read_long_prompt)
    thread.start()
    times = []

    def on_token(n):
        times.append(time.perf_counter())
        if n == ALONE:
            started.set()
        if "end" in window:
            window["after"] = window.get("after", 0) + 1
            if window["after"] > ALONE:
                raise Enough

    prompt = f"Count from one to two thousand in words, one per line. Round {options.seed} {number}."
    try:
        bias = {token: -100 for token in options.ban.split(",") if token}
        chat(options.url, [{"role": "user", "content": prompt}], 4000, options.model, on_token=on_token, logit_bias=bias)
    except Enough:
        pass
    started.set()
    thread.join()
    gaps = [(b, b - a) for a, b in zip(times, times[1:])]
    before = [gap for at, gap in gaps[4:] if at <= window["begin"]]
    during = [gap for at, gap in gaps if window["begin"] < at <= window["end"]]
    after = [gap for at, gap in gaps if at - gap > window["end"]]
    median, p99 = percentile(before + after, 50), percentile(during, 99)
    print(f"round {number + 1}: {window['prompt']} tokens read in {window['end'] - window['begin']:.2f} s; gap before "
          f"{1000 * percentile(before, 50):.1f} ms, after {1000 * percentile(after, 50):.1f}, during median "
          f"{1000 * percentile(during, 50):.1f} p99 {1000 * p99:.1f} max {1000 * max(during, default=0):.1f} ms "
          f"({len(during)} tokens); p99 / median alone {p99 / median:.2f}", flush=True)
    return p99 / median


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:11435")
    parser.add_argument("--model", default="default")
    parser.add_argument("--prompt-tokens", type=int, default=10000)
    parser.add_argument("--ban", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", default=str(time.time_ns()))
    options = parser.parse_args()
    ratios = [one_round(options, number) for number in range(options.rounds)]
    print(f"p99 / median alone over {len(ratios)} rounds: {percentile(ratios, 50):.2f} (median)")


if __name__ == "__main__":
    main()
