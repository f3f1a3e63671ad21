"""A list of checks, run one after the other against a server; used by the client tests beside this file."""
import sys
import time
import traceback
import urllib.request

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


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


def run_all(*arguments):
    """Runs every check with the arguments; prints failures and the count; gives the exit code."""
    failed = 0
    for function in CHECKS:
        started = time.monotonic()
        try:
            function(*arguments)
            verdict = "ok"
        except Exception:
            traceback.print_exc(file=sys.stdout)
            verdict = "FAILED"
            failed += 1
        print(f"{verdict:6} {time.monotonic() - started:6.1f} s  {function.__name__.replace('_', ' ')}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0
