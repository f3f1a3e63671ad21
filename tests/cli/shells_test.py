#!/usr/bin/env python3
"""Completions where they are used: bash, zsh on a terminal, and fish; the manual page in mandoc's eyes.

    shells_test.py TEMPO9

scripts/setup --dev installs the shells and mandoc.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60
# What is typed before the tab, and what stands there after it.
COMPLETED = [
    ("tempo9 doc", "tempo9 doctor "),
    ("tempo9 --por", "tempo9 --port"),
    ("tempo9 --speculation", "tempo9 --speculation-k"),
    ("tempo9 bench sp", "tempo9 bench spec"),
    ("tempo9 bench spec --min-a", "tempo9 bench spec --min-acceptance"),
    ("tempo9 inspect --max-l", "tempo9 inspect --max-length"),
    ("tempo9 --gguf mod", "tempo9 --gguf model.gguf"),
    ("tempo9 --chat-template templ", "tempo9 --chat-template template.jinja"),
    ("tempo9 inspect mod", "tempo9 inspect model.gguf"),
    ("tempo9 mod", "tempo9 model.gguf"),
]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, *command, cwd):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(cwd)
            os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", "HOME": str(cwd), "ZDOTDIR": str(cwd)})
        self.pid = pid
        self.text = ""

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert time.monotonic() < end, f"never saw {text!r} in {self.text!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace").replace("\r", "").replace("\a", "")

    def type(self, keys):
        self.text = ""
        os.write(self.fd, keys.encode())

    def end(self):
        self.type("\x15exit\n")
        os.waitpid(self.pid, 0)


def try_bash(binary, folder):
    script = folder / "tempo9.bash"
    script.write_text(run(binary, "completion", "bash").stdout)
    for typed, expected in COMPLETED:
        words = typed.split()
        replies = run("bash", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tempo9; echo "${COMPREPLY[*]}"',
                      script, *words, cwd=folder).stdout.split()
        assert replies == [expected.split()[-1]], (typed, replies)


def try_zsh(binary, folder):
    (folder / "_tempo9").write_text(run(binary, "completion", "zsh").stdout)
    (folder / "tempo9").symlink_to(binary)
    shell = Terminal("zsh", "-f", "-i", cwd=folder)
    shell.type(f"PS1='ready> '; path=({folder} $path); fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; echo is''set\n")
    shell.wait_for("isset")
    shell.wait_for("ready> ")
    for typed, expected in COMPLETED:
        shell.type(typed + "\t")
        shell.wait_for(expected)
        shell.type("\x15")
    shell.type("tempo9 \t")  # a list with what commands do
    shell.wait_for("doctor")
    shell.end()


def try_fish(binary, folder):
    script = folder / "tempo9.fish"
    script.write_text(run(binary, "completion", "fish").stdout)
    for typed, expected in COMPLETED:
        done = run("fish", "-N", "-c", f"source {script}; complete -C '{typed}'", cwd=folder,
                   env={**os.environ, "HOME": str(folder)})
        replies = [line.split("\t")[0] for line in done.stdout.splitlines()]
        assert not done.stderr and replies == [expected.split()[-1]], (typed, replies, done.stderr)


def try_manual(binary, folder):
    page = folder / "tempo9.1"
    page.write_text(run(binary, "man").stdout)
    problems = run("mandoc", "-T", "lint", "-W", "warning", page).stdout
    assert not problems, problems
    text = re.sub(".\b", "", run("mandoc", "-T", "utf8", page).stdout)  # bold is struck twice
    for part in ("COMMANDS", "ENVIRONMENT", "EXIT STATUS", "tempo9 bench spec"):
        assert part in text, part


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    tools = {"bash": try_bash, "zsh": try_zsh, "fish": try_fish, "mandoc": try_manual}
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        sys.exit(f"shells_test: {', '.join(missing)} not there: run scripts/setup --dev")
    for tool, attempt in tools.items():
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "model.gguf").touch()
            (folder / "template.jinja").touch()
            attempt(binary, folder)
            print(f"{tool}: good", flush=True)


if __name__ == "__main__":
    main()
