"""opencode against a server that answers with what the user's message says (tests/server/echo_server).

    test_opencode.py OPENCODE URL

One scripted task: read a file, edit it, run a command, say that it is done. Everything that opencode writes goes into a
folder of its own. The transcript is printed when the task fails.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PATIENCE_S = 180


def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def config(url):
    return {"autoupdate": False, "share": "disabled", "enabled_providers": ["tempo9"], "permission": {"edit": "allow", "bash": "allow"},
            "model": "tempo9/echo", "small_model": "tempo9/echo",
            "provider": {"tempo9": {"npm": "@ai-sdk/openai-compatible", "name": "tempo9",
                                    "options": {"baseURL": url + "/v1", "apiKey": "none"},
                                    "models": {"echo": {"name": "echo", "tool_call": True, "reasoning": True,
                                                        "limit": {"context": 200000, "output": 32000}}}}}}


def script(folder):
    notes = str(folder / "notes.txt")
    return "SAY:" + "|NEXT|".join([
        "<think>\nLook first.\n</think>\n\nI read it.\n" + call("read", filePath=notes),
        call("edit", filePath=notes, oldString="blue", newString="green"),
        call("bash", command="cat notes.txt > copy.txt", description="Copies the notes"),
        "The sky is green now."]) + "ENDSAY"


def run(opencode, url, root):
    folder = root / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("The sky is blue.\n")
    home = root / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "PWD": str(folder), "OPENCODE_CONFIG_CONTENT": json.dumps(config(url)),
                   "OPENCODE_DISABLE_MODELS_FETCH": "1",
                   "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                   **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "CACHE", "STATE")}}
    # By standard input: of an argument opencode quotes the quotation marks.
    done = subprocess.run([opencode, "run", "--model", "tempo9/echo", "--format", "json"], cwd=folder, env=environment,
                          input=script(folder), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return folder, done


def faults(folder, done):
    """What is not as it should be."""
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    tools = [event["part"]["tool"] for event in events if event.get("type") == "tool_use"]
    texts = [event["part"]["text"] for event in events if event.get("type") == "text"]
    notes = (folder / "notes.txt").read_text()
    copy = folder / "copy.txt"
    found = {
        f"exit code {done.returncode}": done.returncode != 0,
        f"tools were {tools}": tools != ["read", "edit", "bash"],
        f"notes.txt says {notes!r}": notes != "The sky is green.\n",
        "copy.txt is not the edited file": not copy.exists() or copy.read_text() != notes,
        f"the last text is {texts[-1:]}": texts[-1:] != ["The sky is green now."],
    }
    return [text for text, is_true in found.items() if is_true]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as root:
        folder, done = run(os.path.abspath(sys.argv[1]), sys.argv[2].rstrip("/"), pathlib.Path(root))
        found = faults(folder, done)
    if found:
        print(done.stdout, done.stderr, *found, sep="\n")
    print("0 passed, 1 failed" if found else "1 passed, 0 failed")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
