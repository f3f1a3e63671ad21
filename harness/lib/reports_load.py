"""Field reports of group (f): many requests, clients that go, memory, bad bodies, bad files, foreign web pages.

Numbers are smaller than in the reports where they only take time; tests/server/mutated_bodies_test.cpp and
bench/agents/soak.py go further.
"""
import concurrent.futures
import http.client
import json
import pathlib
import random
import struct
import subprocess
import tempfile
import time
import urllib.parse

from reports import Server, questions, report, same, user

LONG = "Tell me a long story about the sea. "


def known(server):
    return server.chat("Name three rivers.", max_tokens=16)["message"]


def leave_after(server, seconds, path="/v1/chat/completions", **body):
    """Asks, and closes the connection after that time whatever has come."""
    address = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("POST", path, json.dumps(body))
    time.sleep(seconds)
    connection.sock.close()


def leave_many(server, n, longest_s, n_at_once=12):
    """Requests that are left in the queue, in the prompt and in the answer; then one as ever."""
    draw = random.Random(5)
    before = known(server)
    server.wait_idle()
    used = server.metric("tempo9_kv_pages_used")
    with concurrent.futures.ThreadPoolExecutor(n_at_once) as pool:
        for i in range(n):
            body = {"messages": user(LONG * draw.randint(1, 40) + str(i)), "max_tokens": 400, "temperature": 0.8, "seed": i,
                    "stream": i % 2 == 0}
            pool.submit(leave_after, server, draw.uniform(0, longest_s), **body)
    server.wait_idle()
    started = time.monotonic()
    same(known(server), before)
    assert time.monotonic() - started < 5
    same(server.metric("tempo9_kv_pages_used"), used)


@report("F01", "clients that go during prefill, decode, and in the queue")
def f01(t, h, q):
    for server in (h, q):
        leave_many(server, 60, 0.6)


@report("F03", "clients that go during speculation")
def f03(t, h, q):
    guessing = Server(t.binary, t.hybrid_model, "--speculation-k", "auto")
    try:
        leave_many(guessing, 60, 0.3)
    finally:
        guessing.stop()


@report("F04", "a whole answer that is not waited for, ten times")
def f04(t, h, q):
    for i in range(10):
        leave_after(q, 0.2, messages=user(LONG), max_tokens=2000, temperature=1, seed=i)
        q.wait_idle(2)


def anonymous_kb(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("Anonymous:", "Swap:")))


@report("F05", "memory after many prompts")
def f05(t, h, q):
    small = Server(t.binary, t.small_model, "--memory", "100M", "--max-length", "1024")
    draw = random.Random(3)
    words = ["rain", "sea", "hill", "bread", "blue", "seven", "of", "and", "the", "walks"]

    def ask_many(n):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: small.post({"max_tokens": 2, "messages": user(" ".join(draw.choices(words, k=60)) + str(i))}),
                          range(n)))
        return anonymous_kb(small)

    try:
        ask_many(100)
        before, after = ask_many(100), ask_many(200)
        assert after <= 1.02 * before, f"{before} kB after 200 prompts, {after} kB after 400"
    finally:
        small.stop()


@report("F06", "forty prompts larger in sum than the cache")
def f06(t, h, q):
    small = Server(t.binary, t.hybrid_model, "--memory", "96M")
    try:
        texts = [f"{i}: " + LONG * 30 for i in range(40)]
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(small.post, {"messages": user(text), "max_tokens": 8}) for text in texts]
            steps = small.metric("tempo9_engine_steps_total")
            while not all(one.done() for one in asked):
                same(small.raw("/health")[0], 200)
                time.sleep(0.1)
        same({one.result()[0] for one in asked}, {200})
        assert small.metric("tempo9_engine_steps_total") > steps
    finally:
        small.stop()


@report("F08", "bodies that are no requests, on every route")
def f08(t, h, q):
    expected = known(q)
    routes = [*questions(""), "/v1/completions", "/v1/messages/count_tokens", "/api/generate", "/api/show"]
    for path in routes:
        for body in ("{}", "null", "[]", "5", '""', "", '{"messages":null}', '{"messages":[null]}', '{"messages":[{"role":"user","content":null}],'
                     '"max_tokens":-5}', '{"prompt":-1}', '{"prompt":[-1]}', '{"input":-1}', '{"model":[]}', '{"options":{"num_predict":{}}}'):
            status, _, answer = q.raw(path, body.encode())
            assert status in (200, 400), (path, body, status)
            if status == 400:
                assert json.loads(answer)["error"], (path, body)
            same(known(q), expected)


@report("F10", "bodies of any size up to the limit")
def f10(t, h, q):
    limit = 64 << 20
    expected = known(q)
    for n in (50_000, 1 << 20, 20 << 20):
        status, _, body = q.raw("/v1/chat/completions", json.dumps({"messages": user("x" * n), "max_tokens": 1}).encode())
        assert status in (200, 400), (n, status, body[:200])
    status = q.raw("/v1/chat/completions", b"[" * 50_000)[0]
    same(status, 400)
    status = q.raw("/v1/chat/completions", b'{"a":"' + b"x" * limit + b'"}')[0]
    same(status, 413)
    same(known(q), expected)


@report("F12", "token ids out of range")
def f12(t, h, q):
    expected = known(q)
    for ids in ([-1], [10**9], [1, 2, 49152], [2**63], [1.5]):
        status, answer = q.post({"prompt": ids, "max_tokens": 2}, "/v1/completions")
        assert status == 400 and "prompt" in json.dumps(answer), (ids, status, answer)
        status, _ = q.post({"prompt": "x", "context": ids, "stream": False, "options": {"num_predict": 2}}, "/api/generate")
        same(status, 400)
        same(known(q), expected)


@report("F14", "hot sampling: every line of the stream is UTF-8 and JSON")
def f14(t, h, q):
    def ask(i):
        body = {"messages": user("Write 50 emoji and some Chinese."), "max_tokens": 120, "temperature": 2, "top_k": 0, "seed": i, "stream": True}
        _, _, data = q.raw("/v1/chat/completions", json.dumps(body).encode())
        for line in data.decode("utf-8", "strict").splitlines():
            if line.startswith("data: {"):
                json.loads(line[6:])
        assert data.rstrip().endswith(b"[DONE]")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(60)))


def load(t, data):
    """Starts the program on a file of these bytes; it must say what is wrong, and neither crash nor take much memory."""
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(data)
        file.flush()
        limit = "ulimit -v 2000000; exec \"$@\""
        done = subprocess.run(["bash", "-c", limit, "-", t.binary, "--gguf", file.name, "--port", "0"], capture_output=True, timeout=60)
    assert done.returncode > 0, f"exit code {done.returncode}"
    assert done.stderr.strip(), "nothing is said"
    return done.stderr.decode()


@report("F15", "files that are cut, or no models")
def f15(t, h, q):
    whole = pathlib.Path(t.small_model).read_bytes()
    for n in (0, 3, 24, 100_000, 2_000_000, len(whole) - 1):
        load(t, whole[:n])
    load(t, b"<!DOCTYPE html><html><body>404 Not Found</body></html>")


def text(value):
    return struct.pack("<Q", len(value)) + value


def gguf(n_tensors, n_keys, *parts):
    return b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_keys) + b"".join(parts)


STRING, ARRAY, U32, U8 = 8, 9, 4, 0


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


@report("F17", "files that declare what they do not have")
@report("F18", "keys that are empty, twice, or of a wrong type")
def f17(t, h, q):
    many = struct.pack("<IQ", U8, 2**63)
    files = [gguf(0, 1, entry(b"a", ARRAY, many)), gguf(2**63, 0), gguf(0, 2**63), gguf(0, 1, struct.pack("<Q", 2**64 - 8) + b"x"),
             gguf(0, 1, entry(b"general.alignment", U32, struct.pack("<I", 2**30))),
             gguf(0, 1, entry(b"general.alignment", U32, struct.pack("<I", 3))),
             gguf(0, 1, entry(b"general.alignment", U32, struct.pack("<I", 0))), gguf(0, 1, entry(b"", U32, struct.pack("<I", 1))),
             gguf(0, 2, entry(b"a", U32, struct.pack("<I", 1)), entry(b"a", U32, struct.pack("<I", 2))),
             gguf(0, 1, entry(b"general.architecture", U32, struct.pack("<I", 1))), gguf(0, 1, entry(b"a", 77, b"")),
             gguf(0, 1, entry(b"a", ARRAY, struct.pack("<IQ", ARRAY, 2**60))),
             gguf(0, 1, entry(b"general.architecture", STRING, struct.pack("<Q", 2**63))),
             gguf(1, 0, text(b"t"), struct.pack("<IQQQQIQ", 4, *[2**62] * 4, 0, 0)), gguf(1, 0, text(b"t"), struct.pack("<I", 2**31))]
    for data in files:
        load(t, data)


@report("F19", "random ids, special ones too, up to the window")
def f19(t, h, q):
    draw = random.Random(1)
    for model, n_vocabulary in ((t.small_model, 49152), (t.hybrid_model, None)):
        server = Server(t.binary, model, "--max-length", "1024")
        try:
            expected = known(server)
            n = n_vocabulary or 500
            for length in (1000, 1023, 1024, 1025, 4096):
                status, answer = server.post({"prompt": [draw.randrange(n) for _ in range(length)], "max_tokens": 4}, "/v1/completions")
                same(status, 200 if length < 1024 else 400)
                same(known(server), expected)
        finally:
            server.stop()


@report("F21", "foreign web pages")
def f21(t, h, q):
    body = json.dumps({"messages": user("x"), "max_tokens": 1}).encode()
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"},
                    {"Origin": "https://evil.example", "Content-Type": "text/plain"}, {"Host": "localhost.evil.example"}):
        status, answered, _ = q.raw("/v1/chat/completions", body, **headers)
        same((status, answered["Access-Control-Allow-Origin"]), (403, None))
    status, answered, _ = q.raw("/v1/chat/completions", body, Origin="http://localhost:3000")
    same((status, answered["Access-Control-Allow-Origin"]), (200, "http://localhost:3000"))
