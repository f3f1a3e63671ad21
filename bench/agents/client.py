"""What the load generators share: one streamed chat over HTTP with its times, texts of a wanted length, a server of our
own, and how figures are summed up. Python's standard library only."""
import http.client
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / "build/release/bin/tempo9"
WORDS = """able acid angle apple arm army art baby back bag ball band base basin basket bath bed bee bell berry bird blade
board boat body bone book boot bottle box boy brain brake branch brick bridge brush bucket bulb button cake camera card
cart carriage cat chain cheese chest chin church circle clock cloud coat collar comb cord cow cup curtain cushion dog door
drain drawer dress drop ear egg engine eye face farm feather finger fish flag floor fly foot fork fowl frame garden girl
glove goat gun hair hammer hand hat head heart hook horn horse hospital house island jewel kettle key knee knife knot leaf
leg library line lip lock map match monkey moon mouth muscle nail neck needle nerve net nose nut office orange oven parcel
pen pencil picture pig pin pipe plane plate plough pocket pot potato prison pump rail rat receipt ring rod roof root sail
school scissors screw seed sheep shelf ship shirt shoe skin skirt snake sock spade sponge spoon spring square stamp star
station stem stick stocking stomach store street sun table tail thread throat thumb ticket toe tongue tooth town train tray
tree trousers umbrella wall watch wheel whip whistle window wing wire worm""".split()


def words(n, seed):
    """n words in sentences; other seeds give other texts from the first word on."""
    rng = random.Random(repr(seed))
    return ". ".join(" ".join(rng.choice(WORDS) for _ in range(min(12, n - i))).capitalize() for i in range(0, n, 12)) + "."


class Answer:
    """One streamed chat completion: when its parts came, in seconds from the request on, and what its usage says."""

    def __init__(self):
        self.times = []
        self.text = ""
        self.usage = {}
        self.status = 0
        self.error = None

    @property
    def ttft(self):
        return self.times[0] if self.times else None

    @property
    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]

    @property
    def cached(self):
        return (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


def chat(url, messages, max_tokens, model="default", on_token=None, timeout=600, **fields):
    """Streams one answer. `on_token(n)` is told of each part; what it raises ends the connection and is raised here."""
    answer = Answer()
    parts = urllib.parse.urlsplit(url)
    body = {"model": model, "messages": messages, "max_tokens": max_tokens, "stream": True, "temperature": 0,
            "stream_options": {"include_usage": True}, **fields}
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    began = time.perf_counter()
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer.status = response.status
        if response.status != 200:
            answer.error = response.read().decode(errors="replace")
            return answer
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if event.get("error"):
                answer.error = json.dumps(event["error"])
            answer.usage = event.get("usage") or answer.usage
            for choice in event.get("choices") or []:
                delta = choice.get("delta") or {}
                text = (delta.get("content") or "") + (delta.get("reasoning_content") or "")
                if text:
                    answer.times.append(time.perf_counter() - began)
                    answer.text += text
                    if on_token:
                        on_token(len(answer.times))
    finally:
        connection.close()
    return answer


def text_of_tokens(url, n_tokens, seed, model="default"):
    """A text of about n_tokens tokens, by what the server says of a short one."""
    probe = chat(url, [{"role": "user", "content": words(200, f"{seed} probe")}], 1, model)
    empty = chat(url, [{"role": "user", "content": "."}], 1, model)
    per_word = (probe.usage["prompt_tokens"] - empty.usage["prompt_tokens"]) / 200
    return words(round(n_tokens / per_word), seed)


def percentile(values, p):
    """Nearest rank; nan of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * p // 100) - 1))]


def in_threads(jobs):
    """Runs functions side by side; gives their results in order."""
    results = [None] * len(jobs)

    def run(i, job):
        results[i] = job()

    threads = [threading.Thread(target=run, args=(i, job)) for i, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def default_model():
    found = subprocess.run([ROOT / "scripts/fetch-model", "smollm2"], capture_output=True, text=True, check=True)
    return found.stdout.split()[-1]


class Server:
    """tempo9 on a free port, with a folder of its own for caches unless one is given. Ends with the block."""

    def __init__(self, model, *flags, binary=BINARY, cache=None, **environment):
        self.own_cache = tempfile.TemporaryDirectory() if cache is None else None
        self.cache = cache or self.own_cache.name
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        env = {**os.environ, "XDG_CACHE_HOME": str(self.cache), **environment}
        self.process = subprocess.Popen([binary, "--gguf", model, "--port", "0", *flags], stderr=self.log, env=env)
        self.url = self.wait_for_address()

    def wait_for_address(self):
        while self.process.poll() is None:
            found = re.search(r"address  (http://\S+)", pathlib.Path(self.log.name).read_text())
            if found:
                return found.group(1)
            time.sleep(0.02)
        raise SystemExit(f"agents: the server ended:\n{pathlib.Path(self.log.name).read_text()[-2000:]}")

    def metrics(self):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")}

    def health(self):
        return urllib.request.urlopen(self.url + "/health", timeout=10).status

    def memory_mb(self):
        """Memory that no file stands behind."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) / 1024

    def wait_for_tiles(self):
        """Until memory has not grown for a second: the weights are then all copied into tiles, behind the first answers."""
        before = -1.0
        while (now := self.memory_mb()) > before + 0.1:
            before = now
            time.sleep(1)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        if self.own_cache:
            self.own_cache.cleanup()
