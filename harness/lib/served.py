"""A tempo9 that a script starts for a model, and the models that scripts take when none is named."""
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def fetch_model(name):
    done = subprocess.run([ROOT / "scripts/fetch-model", name], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(done.stdout.strip())


def default_models(pattern):
    """Those of scripts/fetch-model, and what fits the pattern in ../shared/models."""
    return [fetch_model("smollm2"), fetch_model("gemma3"), *sorted((ROOT.parent / "shared/models").glob(pattern))]


def inspect(binary, model):
    """What `tempo9 inspect --full` prints."""
    return subprocess.run([binary, "inspect", "--full", model], capture_output=True, text=True, check=True).stdout


def template_flags(facts):
    """A chat template for a model without one: Gemma's for a Gemma, else a plain one. `facts`: of inspect."""
    if "tokenizer.chat_template" in facts:
        return []
    is_gemma = re.search(r'"architecture": "gemma', facts)
    return ["--chat-template", "gemma" if is_gemma else ROOT / "harness/lib/plain.jinja"]


class Served:
    """Ready when it is made; what it logs goes to the file `log`. `environment`: variables beside those of this process."""

    def __init__(self, binary, model, log, *flags, environment=None):
        self.log = pathlib.Path(log)
        with open(log, "w") as file:
            self.process = subprocess.Popen([binary, "--gguf", model, "--port", "0", *flags], stderr=file,
                                            env={**os.environ, **(environment or {})})
        self.url = None
        while not self.url:
            if self.process.poll() is not None:
                sys.exit(f"the server did not start:\n{self.log.read_text()}")
            found = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text())
            self.url = found.group(0) if found else time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
