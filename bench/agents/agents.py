#!/usr/bin/env python3
"""Agents on one system prompt, against any OpenAI-compatible server: plain HTTP, nothing of ours assumed.

    bench/agents/agents.py --url http://127.0.0.1:11435            4 agents, 1.5K shared, 3 turns each, 3 rounds
    options: --agents N (4)  --turns N (3)  --rounds N (3)  --system-tokens N (1500)  --max-tokens N (48)
             --model NAME  --warm (one system prompt for all rounds)  --json

A round has a system prompt of its own, so its first turns are cold; within a round each agent has its own task, resends its
conversation each turn and adds a question. Prints, for each round and for all: time to first token p50, p95 and the
longest, gaps between tokens p50, p99 and the longest, generated tokens per second over the round (prefill included), and
what the server says was cached. "first" is the agents' first turns alone, "later" the others.
"""
import argparse
import json
import time

from client import chat, in_threads, percentile, text_of_tokens, words

TASKS = ("Plan a small vegetable garden step by step.", "Explain how a bicycle stays upright.",
         "Write a short story about a lighthouse.", "Describe how bread is made, from grain to loaf.",
         "List reasons to learn a second language, with examples.", "Explain what makes a good map.",
         "Write instructions for packing a suitcase.", "Describe a day in a busy harbour.")


def one_agent(options, system, number, round_number):
    messages = [{"role": "system", "content": system}]
    answers = []
    for turn in range(options.turns):
        task = TASKS[number % len(TASKS)] if turn == 0 else f"Go on, and mention {words(6, (round_number, number, turn))}"
        messages.append({"role": "user", "content": f"Agent {number}. {task}"})
        answer = chat(options.url, messages, options.max_tokens, options.model)
        if answer.error:
            raise SystemExit(f"agents: {answer.status} {answer.error[:500]}")
        messages.append({"role": "assistant", "content": answer.text})
        answers.append(answer)
    return answers


def summary(answers, seconds):
    ttfts = [a.ttft for a in answers if a.ttft is not None]
    gaps = [gap for a in answers for gap in a.gaps]
    prompt = sum(a.usage.get("prompt_tokens", 0) for a in answers)
    return {"requests": len(answers), "ttft_p50_s": percentile(ttfts, 50), "ttft_p95_s": percentile(ttfts, 95),
            "ttft_max_s": max(ttfts, default=float("nan")), "gap_p50_ms": 1000 * percentile(gaps, 50),
            "gap_p99_ms": 1000 * percentile(gaps, 99), "gap_max_ms": 1000 * max(gaps, default=float("nan")),
            "tokens_per_s": sum(a.usage.get("completion_tokens", 0) for a in answers) / seconds if seconds else None,
            "prompt_tokens": prompt, "cached_tokens": sum(a.cached for a in answers)}


def show(name, s):
    rate = f"{s['tokens_per_s']:7.1f} tok/s" if s["tokens_per_s"] else " " * 13
    print(f"{name:8} {s['requests']:3d} requests   ttft {s['ttft_p50_s']:7.3f} {s['ttft_p95_s']:7.3f} {s['ttft_max_s']:7.3f} s"
          f"   gap {s['gap_p50_ms']:7.1f} {s['gap_p99_ms']:7.1f} {s['gap_max_ms']:7.1f} ms   {rate}"
          f"   cached {s['cached_tokens']} of {s['prompt_tokens']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:11435")
    parser.add_argument("--model", default="default")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--system-tokens", type=int, default=1500)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    rounds = []
    if not options.json:
        print("                        ttft p50, p95, max              gap p50, p99, max")
    for number in range(options.rounds):
        seed = options.seed if options.warm else f"{options.seed} {number}"
        system = "You are one of several agents. Notes: " + text_of_tokens(options.url, options.system_tokens, seed,
                                                                           options.model)
        began = time.perf_counter()
        by_agent = in_threads([lambda n=n: one_agent(options, system, n, number) for n in range(options.agents)])
        rounds.append((by_agent, time.perf_counter() - began))
        if not options.json:
            show(f"round {number + 1}", summary([a for answers in by_agent for a in answers], rounds[-1][1]))
    agents = [answers for by_agent, _ in rounds for answers in by_agent]
    result = {"all": summary([a for answers in agents for a in answers], sum(s for _, s in rounds)),
              "first": summary([answers[0] for answers in agents], None),
              "later": summary([a for answers in agents for a in answers[1:]], None)}
    if options.json:
        print(json.dumps(result))
    else:
        for name, s in result.items():
            show(name, s)


if __name__ == "__main__":
    main()
