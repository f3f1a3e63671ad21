#!/usr/bin/env python3
"""Answers that are held to a schema, by real models over HTTP, checked with the PyPI package jsonschema[format-nongpl].

    harness/structured_output.py [--binary PATH] [--n 500] [--out DIR] [MODEL.gguf ...]

Makes n generations, spread over the models, the schemas of lib/structured_cases.py and the ways to ask: response_format
json_schema and json_object, tool_choice required and named, strict tools, streamed or not, with thinking on where the
model can. Default models: those of scripts/fetch-model and of ../shared/models. Prints a table and the raw text of every
failure; writes every request with its answer to DIR/answers.jsonl. An answer cut by its token limit (finish_reason
length) is counted apart: it cannot be valid. Exit code 1 when anything else than valid or cut came back.
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "harness" / "lib"))

import jsonschema  # noqa: E402
from served import Served, default_models, inspect, template_flags  # noqa: E402
from structured_cases import FEATURES, PROMPTS, TOOLS  # noqa: E402

MAX_TOKENS = 700
VALIDATOR = jsonschema.Draft202012Validator


class Server(Served):
    def __init__(self, binary, model, log):
        facts = inspect(binary, model)
        self.can_think = "<think>" in facts
        super().__init__(binary, model, log, "--max-length", "4096", *template_flags(facts))

    def post(self, body):
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=900) as reply:
                return reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()


def joined(stream):
    """The message that a stream's deltas make, and its finish reason."""
    message, finish = {"content": "", "reasoning_content": "", "tool_calls": []}, None
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line[6:])
        if "error" in chunk:
            return {"error": chunk["error"]}
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"function": {"name": call["function"]["name"], "arguments": ""}})
                message["tool_calls"][-1]["function"]["arguments"] += call["function"].get("arguments") or ""
            finish = choice["finish_reason"] or finish
    return {"choices": [{"message": message, "finish_reason": finish}]}


def problem_of(text, schema):
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    errors = list(VALIDATOR(schema, format_checker=VALIDATOR.FORMAT_CHECKER).iter_errors(value))
    return f"{errors[0].json_path}: {errors[0].message}"[:300] if errors else None


def judge(case, answer):
    """(verdict, cause)."""
    if "error" in answer:
        return "error", json.dumps(answer["error"])
    choice = answer["choices"][0]
    message = choice["message"]
    if choice["finish_reason"] == "length":
        return "cut", ""
    if case["schema"] is not None:
        problem = problem_of(message["content"] or "", case["schema"])
        return ("invalid", problem) if problem else ("valid", "")
    calls = message.get("tool_calls") or []
    if not calls:
        return "no call", repr(message.get("content"))
    if message.get("content"):
        return "text beside calls", message["content"]
    tools = {t["function"]["name"]: t["function"]["parameters"] for t in case["body"]["tools"]}
    for call in calls:
        function = call["function"]
        if function["name"] not in tools or case["name"] not in ("any", function["name"]):
            return "wrong tool", function["name"]
        problem = problem_of(function["arguments"], tools[function["name"]])
        if problem:
            return "invalid", f"{function['name']}: {problem}"
    return ("valid", "") if choice["finish_reason"] == "tool_calls" else ("wrong finish", choice["finish_reason"])


def cases(can_think):
    """Endless: (kind, name, body without model and messages, schema of the content or None)."""
    schema_names = itertools.cycle(FEATURES)
    tools = itertools.cycle(range(len(TOOLS)))
    for i in itertools.count():
        thinks = {"chat_template_kwargs": {"enable_thinking": i % 2 == 0}} if can_think else {}
        way = i % 10
        if way == 9:
            yield "json_object", "any", {"response_format": {"type": "json_object"}, **thinks}, {"type": "object"}
        elif way in (2, 5, 7):
            chosen = [TOOLS[(next(tools) + k) % len(TOOLS)] for k in range(3)]
            yield "required", "any", {"tools": chosen, "tool_choice": "required", **thinks}, None
        elif way in (4, 8):
            t = TOOLS[next(tools)]
            choice = {"type": "function", "function": {"name": t["function"]["name"]}}
            strict = {"type": "function", "function": {**t["function"], "strict": True}}
            yield "named", t["function"]["name"], {"tools": [strict if way == 8 else t, TOOLS[0], TOOLS[10]][:3],
                                                   "tool_choice": choice, **thinks}, None
        else:
            name = next(schema_names)
            described = {"name": "answer", "schema": FEATURES[name], "strict": False}
            yield "json_schema", name, {"response_format": {"type": "json_schema", "json_schema": described},
                                        **thinks}, FEATURES[name]


def ask(server, model, number, case):
    body = {"messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}], "max_tokens": MAX_TOKENS,
            "temperature": (0, 0.8, 1.5)[number % 3], "seed": number, "stream": number % 2 == 1, **case["body"]}
    started = time.monotonic()
    text = server.post(body)
    answer = joined(text) if body["stream"] and text.startswith("data:") else json.loads(text)
    verdict, cause = judge(case, answer)
    thinks = bool("choices" in answer and answer["choices"][0]["message"].get("reasoning_content"))
    return {"model": model, "kind": case["kind"], "name": case["name"], "verdict": verdict, "cause": cause,
            "thought": thinks, "seconds": round(time.monotonic() - started, 2), "body": body, "answer": answer}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "build/release/bin/tempo9", type=pathlib.Path)
    parser.add_argument("--n", default=500, type=int)
    parser.add_argument("--out", default=ROOT / "build/harness/structured_output", type=pathlib.Path)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    models = options.models or default_models("*.gguf")
    options.out.mkdir(parents=True, exist_ok=True)
    results, lock = [], threading.Lock()
    with open(options.out / "answers.jsonl", "w") as log:
        for k, model in enumerate(models):
            server = Server(options.binary, model, options.out / f"{model.stem}.log")
            n = options.n // len(models) + (k < options.n % len(models))
            # Each model begins elsewhere in the schemas, so that together they see all of them.
            fields = ({"kind": kind, "name": name, "body": body, "schema": schema}
                      for kind, name, body, schema in itertools.islice(cases(server.can_think), k * 37, k * 37 + n))

            def one(numbered):
                result = ask(server, model.stem, *numbered)
                with lock:
                    results.append(result)
                    log.write(json.dumps(result, ensure_ascii=False) + "\n")
                    log.flush()

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(one, enumerate(fields)))
            server.stop()
    return report(results)


def report(results):
    counts = collections.defaultdict(collections.Counter)
    for r in results:
        counts[r["model"], r["kind"], r["thought"]][r["verdict"]] += 1
    print("| model | asked for | after thinking | valid | cut by max_tokens | other |\n|---|---|---|---|---|---|")
    for (model, kind, thought), verdicts in sorted(counts.items()):
        other = sum(n for verdict, n in verdicts.items() if verdict not in ("valid", "cut"))
        print(f"| {model} | {kind} | {'yes' if thought else 'no'} | {verdicts['valid']} | {verdicts['cut']} | {other} |")
    schemas = {r["name"] for r in results if r["kind"] == "json_schema"}
    total = collections.Counter(r["verdict"] for r in results)
    print(f"\n{len(results)} generations, {len(schemas)} schemas: {dict(total)}")
    failed = [r for r in results if r["verdict"] not in ("valid", "cut")]
    for r in failed:
        print(f"\n{r['verdict']}: {r['model']} {r['kind']} {r['name']}: {r['cause']}\n  {json.dumps(r['answer'])[:1500]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
