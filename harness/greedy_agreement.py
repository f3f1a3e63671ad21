#!/usr/bin/env python3
"""Asks two OpenAI-compatible servers the same 20 questions at temperature 0 and says how far their answers agree.

    harness/greedy_agreement.py URL URL [--tokens N (64)] [--first N (16)] [--show]

The answers are compared token by token, as logprobs names the tokens. Two engines that round differently part where two
tokens are about equally likely: --show prints, for each answer that differs, where and by how much the first server
preferred its own token.
"""
import argparse
import json
import sys
import urllib.request

PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about autumn.",
    "Explain in two sentences why the sky is blue.",
    "List three uses of a paper clip.",
    "Translate 'good morning' into Spanish.",
    "What is 17 plus 25?",
    "Who wrote Romeo and Juliet?",
    "Give a recipe for pancakes.",
    "Describe a cat to somebody who has never seen one.",
    "Write a Python function that reverses a string.",
    "What are the primary colors?",
    "Tell a short story about a lighthouse keeper.",
    "How do plants make food?",
    "Name the planets of the solar system in order.",
    "Why is regular sleep important?",
    "Write an email that asks for a day off.",
    "What is the difference between a lake and a sea?",
    "Give three tips for learning a language.",
    "Summarize the water cycle.",
    "What should I pack for a week at the beach?",
]


def tokens(url, prompt, n_tokens):
    """The answer's tokens, each with its log-probability."""
    body = {"model": "any", "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": n_tokens,
            "logprobs": True, "top_logprobs": 2, "cache_prompt": False}
    request = urllib.request.Request(url.rstrip("/") + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        answer = json.load(reply)
    return answer["choices"][0]["logprobs"]["content"]


def common_length(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n]["token"] == b[n]["token"]:
        n += 1
    return n


def describe_parting(prompt, a, b, n):
    mine, other = (side[n]["token"] if n < len(side) else "(end)" for side in (a, b))
    top = {entry["token"]: entry["logprob"] for entry in a[n]["top_logprobs"]} if n < len(a) else {}
    gap = f"{top[mine] - top[other]:.2f} nats" if mine in top and other in top else "not among the two likeliest"
    return f"  {prompt[:40]:40} after {n:3} tokens: {mine!r} or {other!r} ({gap})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--first", type=int, default=16)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    n_whole = n_first = 0
    for prompt in PROMPTS:
        a, b = (tokens(url, prompt, options.tokens) for url in options.urls)
        n = common_length(a, b)
        is_whole = n == len(a) == len(b)
        n_whole += is_whole
        n_first += is_whole or n >= options.first
        if options.show and not is_whole:
            print(describe_parting(prompt, a, b, n))
            sys.stdout.flush()
    print(f"whole answers of up to {options.tokens} tokens: {n_whole} of {len(PROMPTS)}; "
          f"first {options.first} tokens: {n_first} of {len(PROMPTS)}")


if __name__ == "__main__":
    main()
