#!/usr/bin/env python3
"""Mixed load for hours: clients that ask, leave in mid-answer, send what does not fit, and come back.

    bench/agents/soak.py --minutes 60 [--clients 16] [--model FILE.gguf] [--binary PATH]

Starts a server of its own. Fails when a request gets stuck, when an answer to a known question changes, when health says
"stalled", when the process ends, when the disk cache outgrows its cap, or when memory grows after the first third of the
time by more than 5 % and 20 MB beyond what the kept pages explain.
"""
import argparse
import os
import pathlib
import random
import threading
import time

from client import BINARY, Server, chat, default_model, words

KNOWN = [{"role": "user", "content": "Name the colours of the rainbow."}]
DISK_CAP_GB = 0.3
LEAVING_SECONDS = 10


class Left(Exception):
    pass


class Soak:
    def __init__(self, server, seconds):
        self.server = server
        self.until = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.counts = {}
        self.faults = []
        self.expected = chat(server.url, KNOWN, 24).text

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fault(self, what):
        with self.lock:
            self.faults.append(what)

    def client(self, number):
        rng = random.Random(number)
        while time.monotonic() < self.until and len(self.faults) < 20:
            action = rng.random()
            try:
                if action < 0.15:
                    self.ask_known()
                elif action < 0.25:
                    self.send_oversize(rng)
                else:
                    self.ask_something(rng, leaves=action < 0.5)
            except Left:
                self.count("left")
            except Exception as error:  # noqa: BLE001 - every way to fail is a finding
                self.fault(f"client {number}: {type(error).__name__} {error}")

    def ask_known(self):
        answer = chat(self.server.url, KNOWN, 24, timeout=300)
        if answer.status == 429:
            return self.count("busy")
        self.count("known")
        if answer.text != self.expected:
            self.fault(f"a known answer changed: {answer.text!r}")

    def send_oversize(self, rng):
        answer = chat(self.server.url, [{"role": "user", "content": words(9000, rng.random())}], 8, timeout=300)
        self.count("oversize")
        if answer.status not in (400, 429):
            self.fault(f"an oversize prompt got {answer.status}")

    def ask_something(self, rng, leaves):
        system = words(rng.choice((100, 400, 900)), rng.randrange(12))
        messages = [{"role": "system", "content": system}, {"role": "user", "content": words(20, rng.random())}]
        last = rng.randrange(1, 40)

        def on_token(n):
            if leaves and n >= last:
                raise Left

        answer = chat(self.server.url, messages, rng.randrange(1, 96), on_token=on_token, timeout=300)
        self.count("busy" if answer.status == 429 else "answered")
        if answer.status not in (200, 429) or answer.error and answer.status == 200:
            self.fault(f"{answer.status} {answer.error}")

    def check_nothing_is_left(self):
        """A client that left is noticed while the server works on: what it asked ends soon, not at once."""
        until = time.monotonic() + LEAVING_SECONDS
        while (left := requests_at_work(self.server.metrics())) > 0:
            if time.monotonic() > until:
                return self.fault(f"{left:.0f} requests are left over {LEAVING_SECONDS} s after the last client ended")
            time.sleep(0.05)


def requests_at_work(metrics):
    return metrics["tempo9_requests_running"] + metrics["tempo9_requests_waiting"]


def disk_bytes(folder):
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += (pathlib.Path(path) / name).stat().st_size
            except FileNotFoundError:
                pass
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--model")
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--flags", default="--max-length 4096 --max-batch 8 --memory 1G")
    options = parser.parse_args()
    seconds = 60 * options.minutes

    with Server(options.model or default_model(), *options.flags.split(), binary=options.binary,
                AS_KV_OFFLOAD_GB=str(DISK_CAP_GB)) as server:
        soak = Soak(server, seconds)
        threads = [threading.Thread(target=soak.client, args=(n,)) for n in range(options.clients)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        samples = []
        while time.monotonic() < soak.until and len(soak.faults) < 20:
            time.sleep(min(2, seconds / 30))
            if server.process.poll() is not None:
                soak.fault(f"the server ended with {server.process.returncode}")
                break
            metrics = server.metrics()
            if server.health() != 200:
                soak.fault("health is not ok")
            disk = disk_bytes(f"{server.cache}/tempo9/kv")
            if disk > DISK_CAP_GB * 1e9:
                soak.fault(f"{disk} bytes on disk")
            kept_mb = metrics.get("tempo9_kv_resident_bytes", 0) / 2**20
            samples.append((time.monotonic() - began, server.memory_mb() - kept_mb))
            print(f"{samples[-1][0]:6.0f} s   memory {server.memory_mb():7.1f} MB, of pages {kept_mb:7.1f}   disk "
                  f"{disk / 1e6:6.1f} MB   running {metrics['tempo9_requests_running']:.0f} waiting "
                  f"{metrics['tempo9_requests_waiting']:.0f}   {soak.counts}", flush=True)
        for thread in threads:
            thread.join(300)
        if any(thread.is_alive() for thread in threads):
            soak.fault("a client is stuck")
        if server.process.poll() is None:
            soak.check_nothing_is_left()
            if chat(server.url, KNOWN, 24).text != soak.expected:
                soak.fault("the known answer changed at the end")
        early = [mb for at, mb in samples if seconds / 3 <= at < seconds / 2]
        late = [mb for at, mb in samples if at > seconds * 0.8]
        if early and late and max(late) > 1.05 * max(early) and max(late) > max(early) + 20:
            soak.fault(f"memory beside pages grew from {max(early):.1f} to {max(late):.1f} MB")
    for fault in soak.faults:
        print("FAULT", fault)
    print(f"{len(soak.faults)} faults; {soak.counts}")
    raise SystemExit(1 if soak.faults else 0)


if __name__ == "__main__":
    main()
