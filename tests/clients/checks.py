"""A list of checks, run one after the other against a server; used by the client tests beside this file."""
import importlib.metadata
import sys
import time
import traceback
import urllib.request

# The columns of the matrix in docs/clients.md.
FEATURES = ("text", "stream", "tools", "parallel tools", "reasoning", "structured output", "images refused", "errors",
            "usage", "abort")
CHECKS = []


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
    """The server's own pages."""

    def __init__(self, url):
        self.url = url.rstrip("/")

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
