#!/usr/bin/env python3
"""The official BFCL evaluator (PyPI: bfcl-eval) over HTTP against tempo9.

    harness/bfcl.py [--binary PATH] [--n 40] [--out DIR] [MODEL.gguf ...]

Takes the first n cases of each single-turn category (0: all), generates with the evaluator's own OpenAI client and scores
with its own checker; nothing is read more leniently than it does. Default models: those of scripts/fetch-model and
../shared/models/*Q8_0*. Under DIR/MODEL: result/ and score/ of the evaluator, requests.jsonl (every request with its
answer as it went over the wire and the model's raw text), server.log.

Then causes on this side of the API are looked for: a value of a wrong type whose raw text has the right one, a value of
any call that its raw text does not say (lib/raw_calls.py reads it on its own), a call or a parameter in the raw text that the
answer does not have, an error of the server. Those are printed in full and make the exit code 1; other failures are the model's.
"""
import argparse
import collections
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "harness" / "lib"))

import raw_calls  # noqa: E402
from served import Served, default_models, inspect, template_flags  # noqa: E402

VENV = ROOT / "build/bfcl-venv"
VERSION = "2026.3.23"
CATEGORIES = ["simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple",
              "irrelevance", "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
              "live_irrelevance", "live_relevance"]
# What the evaluator imports. Left out: sentence-transformers and faiss, gigabytes that only its memory category needs.
PACKAGES = ["requests", "tqdm", "numpy==1.26.4", "pandas", "pydantic>=2.8.2", "python-dotenv>=1.0.1",
            "tree_sitter==0.21.3", "tree-sitter-java==0.21.0", "tree-sitter-javascript==0.21.4", "openai>=1.86.0",
            "mistralai==1.7.0", "anthropic>=0.75.0", "cohere==5.18.0", "typer>=0.12.5", "tabulate>=0.9.0",
            "google-genai>=1.52.0", "mpmath==1.3.0", "tenacity>=8.5.0", "writer-sdk>=2.1.0", "overrides", "boto3",
            "beautifulsoup4", "html2text", "rank_bm25==0.2.2", "google-search-results", "networkx==3.3",
            "datamodel-code-generator==0.25.7", "filelock==3.20.0", "huggingface_hub", "qwen-agent", "soundfile", "python-dateutil", "jsonschema"]


def make_venv():
    python = VENV / "bin/python"
    if python.exists() and subprocess.run([python, "-c", "import bfcl_eval.constants.model_config"], capture_output=True,
                                          env={**os.environ, "BFCL_PROJECT_ROOT": str(VENV)}).returncode == 0:
        return python
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PACKAGES], check=True)
    subprocess.run([*pip, "--no-deps", f"bfcl-eval=={VERSION}"], check=True)
    return python


class Server(Served):
    def __init__(self, binary, model, log):
        flags = template_flags(inspect(binary, model))
        super().__init__(binary, model, log, "--max-length", "4096", "--log-text", *flags)

    def raw_texts(self):
        """By request id."""
        found = re.findall(r'event=answer_text request=(\S+) text=(".*")$', self.log.read_text(), re.MULTILINE)
        return {request: json.loads(text) for request, text in found}


class Recorder(http.server.ThreadingHTTPServer):
    """Passes requests on and keeps them. A limit of tokens is put in: a small model may not find an end."""

    def __init__(self, url, max_tokens):
        super().__init__(("127.0.0.1", 0), RecorderHandler)
        self.target, self.max_tokens, self.exchanges, self.lock = url, max_tokens, [], threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class RecorderHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["max_tokens"] = self.server.max_tokens
        request = urllib.request.Request(self.server.target + self.path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            reply = urllib.request.urlopen(request, timeout=900)
        except urllib.error.HTTPError as error:
            reply = error
        answer = reply.read()
        with self.server.lock:
            self.server.exchanges.append({"id": reply.headers.get("x-request-id"), "status": reply.status,
                                          "request": body, "answer": json.loads(answer)})
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def case_ids(python, n):
    code = ("import json, sys\nfrom bfcl_eval.utils import load_dataset_entry\n"
            "print('\\n' + json.dumps({c: [e['id'] for e in load_dataset_entry(c)] for c in sys.argv[1:]}))")
    out = subprocess.run([python, "-c", code, *CATEGORIES], capture_output=True, text=True, check=True,
                         env={**os.environ, "BFCL_PROJECT_ROOT": str(VENV)}).stdout
    ids = json.loads(out.splitlines()[-1])
    return {category: some[:n] if n else some for category, some in ids.items()}


def evaluate(python, server, name, folder, ids, options):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_case_ids_to_generate.json").write_text(json.dumps(ids))
    recorder = Recorder(server.url, options.max_tokens)
    environment = {**os.environ, "BFCL_PROJECT_ROOT": str(folder), "TEMPO9_BFCL_MODEL": name, "OPENAI_API_KEY": "none",
                   "OPENAI_BASE_URL": f"http://127.0.0.1:{recorder.server_port}/v1"}
    driver = [python, ROOT / "harness/lib/bfcl_driver.py"]
    for command in (["generate", "--model", name, "--run-ids", "--num-threads", "4", "--allow-overwrite"],
                    ["evaluate", "--model", name, "--test-category", ",".join(CATEGORIES), "--partial-eval"]):
        with open(folder / f"{command[0]}.log", "w") as log:
            subprocess.run([*driver, *command], env=environment, stdout=log, stderr=log, check=True)
    recorder.shutdown()
    time.sleep(0.5)
    raw = server.raw_texts()
    for exchange in recorder.exchanges:
        exchange["raw"] = raw.get(exchange["id"])
    with open(folder / "requests.jsonl", "w") as log:
        for exchange in recorder.exchanges:
            log.write(json.dumps(exchange, ensure_ascii=False) + "\n")
    return recorder.exchanges


# --- what became of the cases

CALL_MARKS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|tool_call>", "to=functions.")

def our_fault(failure, exchange):
    """Why the failure may not be the model's; None when it is."""
    if exchange is None:
        return "no request was recorded"
    if exchange["status"] != 200:
        return f"status {exchange['status']}"
    message = exchange["answer"]["choices"][0]["message"]
    calls = message.get("tool_calls") or []
    raw = exchange["raw"] or ""
    if exchange["answer"]["choices"][0]["finish_reason"] == "length":
        return None  # cut
    for call in calls:
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            return f"arguments are no JSON: {call['function']['arguments']}"
    n_marks = max(raw.count(mark) for mark in CALL_MARKS)
    if n_marks > len(calls):
        return f"{n_marks} calls are marked in the raw text, {len(calls)} in the answer"
    return next(filter(None, (wrong_type(error, raw) for error in failure.get("error") or [])), None)


WRONG_TYPE = re.compile(r"parameter '?(.+?)'?\. Expected (?:outer )?type (\w+)")


def wrong_type(error, raw):
    """Why a value of a wrong type may not be the model's: its raw text has the type, or is not to be found."""
    found = WRONG_TYPE.search(str(error))
    if not found:
        return None
    written = raw_calls.values_of(raw).get(found[1])
    if not written:
        return f"no raw value to compare with: {error}"
    if "Nested type" in str(error):
        return None  # the list is one; what is in it is compared by changed_values
    texts = (one if isinstance(one, str) else json.dumps(one) for one in written)
    return next((f"raw {one!r} has the type: {error}" for one in texts if raw_calls.is_convertible(one, found[2])), None)


def changed_values(exchange):
    """What was delivered and is not in the raw text, over all calls of an answer."""
    if exchange["status"] != 200:
        return
    raw = raw_calls.values_of(exchange["raw"] or "")
    for call in exchange["answer"]["choices"][0]["message"].get("tool_calls") or []:
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            continue  # cut; told of elsewhere when it is not
        for name, value in arguments.items():
            if not any(raw_calls.is_value_of(value, one) for one in raw.get(name, [])):
                yield f"{call['function']['name']}.{name} was delivered as {value!r}"


def lost_parameters(exchange):
    """What stands in whole tags of an answer's XML calls and was not delivered. (A tag that is not whole is none: what
    the model wrote as one is the text between two parameters, which is nobody's.)"""
    if exchange["status"] != 200 or exchange["answer"]["choices"][0]["finish_reason"] == "length":
        return
    functions = raw_calls.xml_functions((exchange["raw"] or "").rpartition("</think>")[2])
    calls = exchange["answer"]["choices"][0]["message"].get("tool_calls") or []
    for (names, _), call in zip(functions, calls):
        try:
            lost = names - json.loads(call["function"]["arguments"]).keys()
        except (ValueError, AttributeError):
            continue  # told of elsewhere
        if lost:
            yield f"{call['function']['name']} was delivered without {', '.join(sorted(lost))}"


def n_broken_tags(exchanges):
    return sum(len(broken) for e in exchanges for _, broken in raw_calls.xml_functions(e.get("raw") or ""))


def failures_of(folder):
    """(category, summary, [failed entries])."""
    for file in sorted((folder / "score").rglob("BFCL_v4_*_score.json")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        yield re.search(r"BFCL_v4_(.*)_score", file.name)[1], lines[0], lines[1:]


def find_exchange(exchanges, failure):
    question = (failure.get("prompt") or {}).get("question")
    for exchange in exchanges:
        if question and exchange["request"]["messages"] == question[0]:
            names = {f["name"].replace(".", "_") for f in failure["prompt"]["function"]}
            if names == {t["function"]["name"] for t in exchange["request"].get("tools", [])}:
                return exchange
    return None


def report(name, folder, exchanges):
    print(f"\n## {name}\n\n| category | cases | right | failed: kinds |\n|---|---|---|---|")
    faults = []
    for category, summary, failed in failures_of(folder):
        kinds = collections.Counter(str(f.get("error_type", "?")) for f in failed)
        print(f"| {category} | {summary['total_count']} | {summary['correct_count']} | "
              f"{', '.join(f'{kind} {n}' for kind, n in kinds.most_common())} |")
        for failure in failed:
            exchange = find_exchange(exchanges, failure)
            if why := our_fault(failure, exchange):
                faults.append((failure["id"], why, exchange))
    n_types = sum(bool(WRONG_TYPE.search(str(e))) for _, _, failed in failures_of(folder) for f in failed
                  for e in f.get("error") or [])
    n_calls = sum(len(e["answer"]["choices"][0]["message"].get("tool_calls") or []) for e in exchanges if e["status"] == 200)
    faults += [(e["id"], why, e) for e in exchanges for why in (*changed_values(e), *lost_parameters(e))]
    n_cut = sum(e["status"] == 200 and e["answer"]["choices"][0]["finish_reason"] == "length" for e in exchanges)
    print(f"\n{len(exchanges)} requests, {sum(e['status'] != 200 for e in exchanges)} with an error status, "
          f"{n_cut} answers cut by max_tokens; every value of {n_calls} calls compared with the raw text, and {n_types} values of "
          f"a wrong type; {n_broken_tags(exchanges)} parameter tags without their end in the raw text; {len(faults)} to look at")
    for case, why, exchange in faults:
        raw = exchange and exchange["raw"]
        answer = exchange and (exchange["answer"].get("choices") or [exchange["answer"]])[0]
        print(f"\n{case}: {why}\n  raw: {raw!r}\n  answer: {json.dumps(answer)}")
    return len(faults)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "build/release/bin/tempo9", type=pathlib.Path)
    parser.add_argument("--n", default=40, type=int)
    parser.add_argument("--max-tokens", default=400, type=int)
    parser.add_argument("--out", default=ROOT / "build/harness/bfcl", type=pathlib.Path)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    models = options.models or default_models("*Q8_0*.gguf")
    python = make_venv()
    ids = case_ids(python, options.n)
    n_faults = 0
    for model in models:
        folder = (options.out / model.stem).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        server = Server(options.binary, model, folder / "server.log")
        name = "tempo9-" + model.stem.replace("_", "-")  # the evaluator reads an underscore as a slash
        exchanges = evaluate(python, server, name, folder, ids, options)
        server.stop()
        n_faults += report(name, folder, exchanges)
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main())
