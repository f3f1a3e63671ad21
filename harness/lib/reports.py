"""What the trials of field reports share: their list, servers to ask, `tempo9 parse` and `tempo9 render`, messages."""
import collections
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from served import Served, fetch_model

REPORTS = []


class Gap(Exception):
    pass


def report(id, what):
    def add(function):
        REPORTS.append((id, what, function))
        return function
    return add


def try_all(only, *arguments):
    """Runs the reports named in `only` (separated by commas; empty: all; a letter: its group) and prints a table; what a
    report returns stands in its row. Returns how many failed."""
    n_failed = 0
    print("| report | tried | result |\n|---|---|---|")
    for id, what, function in sorted(REPORTS, key=lambda one: one[0]):
        if only and not {id, id[0]} & set(only.split(",")):
            continue
        try:
            said = function(*arguments)
            result = f"PASS: {said}" if said else "PASS"
        except Gap as gap:
            result = f"GAP: {gap}"
        except Exception as error:
            n_failed += 1
            result = f"FAIL: {type(error).__name__}: {str(error)[:600]}"
        print(f"| {id} | {what} | {result} |", flush=True)
    return n_failed


def same(got, expected):
    assert got == expected, f"{got!r} instead of {expected!r}"


# What a completion said, to the bit: its tokens and their log-probabilities.
Completion = collections.namedtuple("Completion", "said cached n_prompt text finish")

# Tokens that end an answer of one of the models tried here (ordinary words of the others).
ENDS = {"0": -100, "1": -100, "2": -100, "106": -100, "8166": -100, "8168": -100}


class Server(Served):
    def __init__(self, binary, model, *flags, environment=None):
        self.file = tempfile.NamedTemporaryFile("w+", suffix=".log")
        super().__init__(binary, model, self.file.name, *flags, environment=environment)

    def post(self, body, path="/v1/chat/completions"):
        """(status, JSON or text)."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as reply:
                status, text = reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def chat(self, messages, **fields):
        """The choice of a good answer; of a stream what its chunks make."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        status, answer = self.post({"messages": messages, "temperature": 0, "max_tokens": 200, **fields})
        assert status == 200, f"{status}: {answer}"
        return joined(answer) if isinstance(answer, str) else answer["choices"][0]

    def complete(self, prompt, n=4, **fields):
        """The most likely n tokens behind a text or token ids; the answer does not end by itself."""
        status, answer = self.post({"prompt": prompt, "max_tokens": n, "temperature": 0, "logprobs": 1, "logit_bias": ENDS,
                                    **fields}, "/v1/completions")
        assert status == 200, f"{status}: {answer}"
        choice, usage = answer["choices"][0], answer["usage"]
        said = (tuple(choice["logprobs"]["tokens"]), tuple(choice["logprobs"]["token_logprobs"]))
        return Completion(said, usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"], choice["text"],
                          choice["finish_reason"])

    def raw(self, path, data=None, method=None, **headers):
        """(status, headers, body bytes) of anything."""
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def metric(self, name):
        """Of one with labels the sum."""
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.raw("/metrics")[2].decode(), re.MULTILINE)
        assert values, name
        return sum(map(float, values))

    def wait_idle(self, patience_s=10):
        """Until no request runs or waits; raises after that time."""
        end = time.monotonic() + patience_s
        while self.metric("tempo9_requests_running") + self.metric("tempo9_requests_waiting") > 0:
            assert time.monotonic() < end, "requests still run"
            time.sleep(0.01)

    def gaps(self, body):
        """Seconds between the events of a stream."""
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps({**body, "stream": True}).encode(),
                                         {"Content-Type": "application/json"})
        times = [time.monotonic()]
        with urllib.request.urlopen(request, timeout=600) as reply:
            for line in reply:
                if line.strip():
                    times.append(time.monotonic())
        return [b - a for a, b in zip(times, times[1:])]


class Echo(Server):
    def __init__(self, program):
        self.process = subprocess.Popen([program], stderr=subprocess.PIPE, text=True)
        self.url = self.process.stderr.readline().strip()


def chunks_of(stream):
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]


def joined(stream):
    message, finish, logprobs = {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": []}, None, []
    for chunk in chunks_of(stream):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({**call, "function": {**call["function"], "arguments": ""}})
                message["tool_calls"][-1]["function"]["arguments"] += call["function"].get("arguments") or ""
            finish = choice["finish_reason"] or finish
            logprobs += (choice.get("logprobs") or {}).get("content") or []
    for key in ("content", "reasoning_content", "tool_calls"):
        message[key] = message[key] or None
    return {"message": message, "finish_reason": finish, "logprobs": {"content": logprobs} if logprobs else None}


def tool(name="weather", strict=False, required=("city",), **properties):
    properties = properties or {"city": {"type": "string"}, "days": {"type": "integer"}}
    function = {"name": name, "description": f"The {name}.", "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}
    return {"type": "function", "function": {**function, "strict": True} if strict else function}


def schema_format(schema, strict=False):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}


def is_valid(text, schema):
    import jsonschema
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))


class Tools:
    """Models, servers of a report's own, tests of the build, and tempo9 parse, render and tokenize."""

    def __init__(self, binary, shared):
        self.binary, self.shared = binary, shared
        self.hybrid_model = shared / "models/tempo9-tiny-qwen35-mtp.Q8_0.gguf"

    @functools.cached_property
    def small_model(self):
        return str(fetch_model("smollm2"))

    @functools.cached_property
    def sliding_model(self):
        return fetch_model("gemma3")

    def serve(self, model, *flags, **environment):
        """A server without a disk cache, unless the environment says otherwise."""
        if model == self.__dict__.get("sliding_model"):
            flags = ("--chat-template", "gemma", *flags)
        return Server(self.binary, model, *flags, environment={"AS_KV_OFFLOAD": "0", **environment})

    def test(self, program, names):
        """Tests of the build, which lies where the binary does. `names`: gtest's filter."""
        done = subprocess.run([pathlib.Path(self.binary).parent / program, f"--gtest_filter={names}"], capture_output=True, text=True)
        passed = re.search(r"\[  PASSED  \] (\d+) test", done.stdout)
        assert done.returncode == 0 and passed and int(passed[1]) > 0, done.stdout[-500:]

    def tokens(self, text, model):
        out = self.run("tokenize", "--gguf", model, text=text)
        assert out.returncode == 0, out.stderr.decode()
        return json.loads(out.stdout)

    def echo(self):
        """A server of tests, whose model says what it is told."""
        return Echo(pathlib.Path(self.binary).parent / "echo_server")

    def run(self, *arguments, text=""):
        return subprocess.run([self.binary, *arguments], input=text.encode(), capture_output=True,
                              env={**os.environ, "TZ": os.environ.get("TZ", "UTC")})

    def parse(self, dialect, text, tools=None, **options):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(tools if tools is not None else [tool(), tool("write", text={"type": "string"}, required=["text"])],
                      file)
            file.flush()
            flags = [f"--{key}={value}" for key, value in options.items()]
            results = []
            for chunk in (0, 1, 3):
                cut = [f"--chunk={chunk}"] if chunk else []
                out = self.run("parse", "--dialect", dialect, "--tools", file.name, *flags, *cut, text=text)
                assert out.returncode == 0, out.stderr.decode()
                results.append(json.loads(out.stdout))
        assert all(r == results[0] for r in results), "cuts matter"
        return results[0]

    def xml_value(self, value, **schema):
        text = f"<tool_call>\n<function=f>\n<parameter=v>\n{value}\n</parameter>\n</function>\n</tool_call>"
        parsed = self.parse("qwen-xml", text, [tool("f", required=["v"], v=schema)])
        same(len(parsed["calls"]), 1)
        return json.loads(parsed["calls"][0]["arguments_json"])["v"]

    def render(self, template, body, status=0):
        if not isinstance(template, pathlib.Path):
            with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
                file.write(template)
                file.flush()
                out = self.run("render", "--template", file.name, text=json.dumps(body))
        else:
            out = self.run("render", "--template", template, text=json.dumps(body))
        same(out.returncode, status)
        return out.stdout.decode() if status == 0 else out.stderr.decode()


def call(name="weather", arguments='{"city":"Ulm"}', id="c1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def loop(arguments='{"city":"Ulm"}', content="", ids=("c1",), **more):
    """A conversation with calls and their results."""
    return [{"role": "user", "content": "The weather in Ulm?"},
            {"role": "assistant", "content": content, "tool_calls": [call(arguments=arguments, id=id) for id in ids], **more},
            *({"role": "tool", "tool_call_id": id, "content": "sunny"} for id in ids)]


TOOL_PROMPT = "Call weather with city Oslo and days 3."
FORCED = {"tools": [tool()], "tool_choice": "required"}


def user(text):
    return [{"role": "user", "content": text}]


def questions(text, limit=200, stream=False):
    """(path, body) of one question in each dialect."""
    return {"/v1/chat/completions": {"messages": user(text), "max_tokens": limit, "temperature": 0, "stream": stream},
            "/v1/responses": {"input": text, "max_output_tokens": limit, "temperature": 0, "stream": stream},
            "/v1/messages": {"messages": user(text), "max_tokens": limit, "temperature": 0, "stream": stream},
            "/api/chat": {"messages": user(text), "options": {"num_predict": limit, "temperature": 0}, "stream": stream}}


def data_of(stream):
    """The JSON values of a stream's events or lines."""
    lines = (line[6:] if line.startswith("data: ") else line for line in stream.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]
