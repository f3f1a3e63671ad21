"""A list of checks, run one after the other against a server; used by the client tests beside this file."""
import contextlib
import http.client
import importlib.metadata
import json
import sys
import time
import traceback
import urllib.parse
import urllib.request

# The columns of the matrix in docs/clients.md.
FEATURES = ("text", "stream", "tools", "parallel tools", "reasoning", "structured output", "images refused", "errors",
            "usage", "abort")
CHECKS = []

# What a small instruct model is asked where it does not matter what it says.
PROMPTS = [
    "Why is the sky blue?",
    "Name three rivers in Europe.",
    "How do I boil an egg?",
    "Tell me a story about a fox. \U0001F98A",
]


def check(function):
    CHECKS.append(function)
    return function


def proves(*features):
    """Above @check: what of the client the check shows to work."""
    assert set(features) <= set(FEATURES), features

    def mark(function):
        function.features = features
        return function
    return mark


class Server:
    """The server's own pages. `wire`: what the client was answered (strict.Wire)."""

    def __init__(self, url, wire=None):
        self.url = url.rstrip("/")
        self.wire = wire

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def wait_metric(self, name, is_right, patience_s=30.0):
        """Asks until the metric satisfies `is_right`; gives its value."""
        end = time.monotonic() + patience_s
        while not is_right(value := self.metric(name)):
            assert time.monotonic() < end, f"{name} is still {value}"
            time.sleep(0.01)
        return value

    @contextlib.contextmanager
    def cancels_one(self):
        """In the block a client leaves its answer: the slot is free again, and one request counts as cancelled."""
        cancelled = self.metric("tempo9_requests_cancelled_total")
        yield
        self.wait_metric("tempo9_requests_running", lambda n: n == 0)
        self.wait_metric("tempo9_requests_cancelled_total", lambda n: n == cancelled + 1)

    def leave_whole_answer(self, path, **body):
        """Asks for an answer that is long in coming, and goes once it is on its way."""
        address = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname, address.port)
        connection.request("POST", path, json.dumps(body))
        self.wait_metric("tempo9_requests_running", lambda n: n == 1)
        connection.close()


def print_matrix(client, packages, failed):
    """The line of the matrix that scripts/test-clients collects."""
    proven = {feature for function in CHECKS for feature in getattr(function, "features", ())}
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    verdicts = ["FAIL" if f in failed else "pass" if f in proven else "-" for f in FEATURES]
    print("\t".join(["matrix", client, versions, *verdicts]))


def run_all(*arguments, client=None, packages=()):
    """Runs every check with the arguments; prints failures and the count; gives the exit code."""
    failures = 0
    failed = set()
    for function in CHECKS:
        started = time.monotonic()
        try:
            function(*arguments)
            verdict = "ok"
        except Exception:
            traceback.print_exc(file=sys.stdout)
            verdict = "FAILED"
            failures += 1
            failed.update(getattr(function, "features", ()))
        print(f"{verdict:6} {time.monotonic() - started:6.1f} s  {function.__name__.replace('_', ' ')}", flush=True)
    print(f"{len(CHECKS) - failures} passed, {failures} failed")
    if client:
        print_matrix(client, packages, failed)
    return 1 if failures else 0
