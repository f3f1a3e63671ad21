"""opencode against a server whose model says what its task tells it to (tests/server/echo_server).

    test_opencode.py ECHO_SERVER OPENCODE          both are programs

scripts/test-clients --agents runs this. Everything that opencode writes goes into folders of the test.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from agents import EchoServer, call, json_lines, new_folder, task_of
from checks import check, run_all

PATIENCE_S = 180


def config(url):
    return {"autoupdate": False, "share": "disabled", "enabled_providers": ["tempo9"], "permission": {"edit": "allow", "bash": "allow"},
            "model": "tempo9/echo", "small_model": "tempo9/echo",
            "provider": {"tempo9": {"npm": "@ai-sdk/openai-compatible", "name": "tempo9",
                                    "options": {"baseURL": url + "/v1", "apiKey": "none"},
                                    "models": {"echo": {"name": "echo", "tool_call": True, "reasoning": True,
                                                        "limit": {"context": 200000, "output": 32000}}}}}}


def run_opencode(opencode, url, folder, task):
    """The events that opencode prints, one JSON object a line, and what else it says."""
    home = new_folder(folder / "home")
    work = folder / "work"
    environment = {**os.environ, "HOME": str(home), "PWD": str(work), "OPENCODE_CONFIG_CONTENT": json.dumps(config(url)),
                   "OPENCODE_DISABLE_MODELS_FETCH": "1",
                   "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                   **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "CACHE", "STATE")}}
    # By standard input: of an argument opencode quotes the quotation marks.
    done = subprocess.run([opencode, "run", "--model", "tempo9/echo", "--format", "json"], cwd=work, env=environment,
                          input=task, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return json_lines(done.stdout), done


def parts_of(events, kind):
    return [event["part"] for event in events if event.get("type") == kind]


@check
def a_file_is_read_edited_and_copied(echo_server, opencode):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        work = new_folder(folder / "work", **{"notes.txt": "The sky is blue.\n"})
        notes = str(work / "notes.txt")
        task = task_of("<think>\nLook first.\n</think>\n\nI read it.\n" + call("read", filePath=notes),
                       call("edit", filePath=notes, oldString="blue", newString="green"),
                       call("bash", command="cat notes.txt > copy.txt", description="Copies the notes"),
                       "The sky is green now.")
        with EchoServer(echo_server) as server:
            events, done = run_opencode(opencode, server.url, folder, task)
        assert done.returncode == 0, (done.stdout, done.stderr)
        tools = [part["tool"] for part in parts_of(events, "tool_use")]
        assert tools == ["read", "edit", "bash"], (tools, done.stdout, done.stderr)
        assert (work / "notes.txt").read_text() == "The sky is green.\n"
        assert (work / "copy.txt").read_text() == "The sky is green.\n"
    assert [part["text"] for part in parts_of(events, "text")][-1:] == ["The sky is green now."]


def errors_of(events):
    return [event["error"]["name"] for event in events if event.get("type") == "error"]


@check
def a_context_that_is_full_is_known_as_such(echo_server, opencode):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work")
        began = time.monotonic()
        with EchoServer(echo_server, "--context", "2000") as server:
            events, done = run_opencode(opencode, server.url, folder, "Say hello.")
        assert set(errors_of(events)) == {"ContextOverflowError"}, (done.stdout, done.stderr)
        assert time.monotonic() - began < 90


@check
def a_conversation_that_outgrows_the_context_is_compacted_and_goes_on(echo_server, opencode):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work", big="".join(f"line {i} of the big file\n" for i in range(1000)))
        task = task_of("Reading." + call("bash", command="cat big", description="Reads"), "They read it.")
        with EchoServer(echo_server, "--context", "45000") as server:
            events, done = run_opencode(opencode, server.url, folder, task)
    assert errors_of(events) == ["ContextOverflowError"], (done.stdout, done.stderr)
    assert any(part.get("metadata", {}).get("compaction_continue") for part in parts_of(events, "text")), done.stdout
    assert events[-1]["type"] == "step_finish" and events[-1]["part"]["reason"] == "stop", events[-1]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    return run_all(sys.argv[1], os.path.abspath(sys.argv[2]))


if __name__ == "__main__":
    raise SystemExit(main())
