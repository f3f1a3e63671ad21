"""The Codex agent against a server whose model says what its task tells it to (tests/server/echo_server).

    test_codex.py ECHO_SERVER CODEX          both are programs

Codex is given a task in a folder of its own; the model reads a file, edits it, runs it, and speaks. scripts/test-clients
runs this where Codex can be installed.
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

PATIENCE_S = 120


CONFIG = """
{more}
model = "scripted"
model_provider = "tempo9"
[model_providers.tempo9]
name = "tempo9"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


def run_codex(codex, url, folder, task, *options, more=""):
    """The events that Codex prints, one JSON object a line, and its exit code. `more`: lines of its settings."""
    home = new_folder(folder / "home")
    (home / "config.toml").write_text(CONFIG.format(url=url, more=more))
    work = folder / "work"
    command = [codex, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
               "-C", str(work), *options, task]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home), "TERM": "dumb"}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S)
    events = json_lines(done.stdout)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
    return events, done.returncode


def items_of(events, kind):
    return [event["item"] for event in events if event["type"] == "item.completed" and event["item"]["type"] == kind]


@check
def a_file_is_read_edited_and_run(echo_server, codex):
    patch = "*** Begin Patch\n*** Update File: greet\n@@\n-echo \"hello $1\"\n+echo \"h\u00e9llo, <$1> & 'co'\"\n*** End Patch"
    answers = [
        "<think>\nFirst I read it.\n</think>\n\nReading.\n" + call("exec_command", cmd="cat greet", yield_time_ms="1000"),
        call("exec_command", cmd=f"apply_patch <<'EOF'\n{patch}\nEOF"),
        call("exec_command", cmd="sh greet world") + "\n" + call("exec_command", cmd="wc -l < greet"),
        "All done: it greets.",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        work = new_folder(folder / "work", greet="echo \"hello $1\"\n")
        with EchoServer(echo_server) as server:
            events, code = run_codex(codex, server.url, folder, task_of(*answers))
        assert code == 0
        assert (work / "greet").read_text() == "echo \"h\u00e9llo, <$1> & 'co'\"\n", (work / "greet").read_text()
    commands = items_of(events, "command_execution")
    outputs = [command["aggregated_output"] for command in commands]
    assert any("hello $1" in output for output in outputs), outputs
    assert any("h\u00e9llo, <world> & 'co'" in output for output in outputs), outputs
    messages = [item["text"] for item in items_of(events, "agent_message")]
    assert messages == ["Reading.", "All done: it greets."], messages
    assert [item["text"] for item in items_of(events, "reasoning")] == ["First I read it."]
    usage = next(event["usage"] for event in events if event["type"] == "turn.completed")
    assert usage["input_tokens"] > 0 and usage["output_tokens"] > 0 and usage["cached_input_tokens"] > 0, usage


@check
def the_last_answer_may_be_held_to_a_schema(echo_server, codex):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
              "additionalProperties": False}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work")
        (folder / "schema.json").write_text(json.dumps(schema))
        with EchoServer(echo_server) as server:
            events, code = run_codex(codex, server.url, folder, task_of('{"a": "x"}'), "--output-schema",
                                     str(folder / "schema.json"))
    assert code == 0
    assert [item["text"] for item in items_of(events, "agent_message")] == ['{"a": "x"}']


@check
def an_unknown_tool_is_told_to_the_model(echo_server, codex):
    answers = [call("no_such_tool", x=1), "I see."]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work")
        with EchoServer(echo_server) as server:
            events, code = run_codex(codex, server.url, folder, task_of(*answers))
    assert code == 0
    assert [item["text"] for item in items_of(events, "agent_message")] == ["I see."]


@check
def a_context_that_is_full_is_told_and_not_tried_again(echo_server, codex):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work")
        with EchoServer(echo_server, "--context", "2000") as server:
            began = time.monotonic()
            events, code = run_codex(codex, server.url, folder, "Say hello.")
    assert code != 0
    failure = next(event["error"]["message"] for event in events if event["type"] == "turn.failed")
    assert "context window" in failure or "context_length_exceeded" in failure, failure
    assert time.monotonic() - began < 30


@check
def a_conversation_that_outgrows_the_context_is_compacted_and_goes_on(echo_server, codex):
    settings = "model_context_window = 50000\nmodel_auto_compact_token_limit = 45000"
    # What was said is forgotten with the compaction: the answers begin again, and the file is gone by then.
    answers = ["Reading." + call("exec_command", cmd="cat big; rm big", max_output_tokens=100000),
               call("exec_command", cmd="true"), "They read it."]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work", big="".join(f"line {i} of the big file\n" for i in range(1000)))
        with EchoServer(echo_server, "--context", "50000") as server:
            events, code = run_codex(codex, server.url, folder, task_of(*answers), more=settings)
            prompts = server.prompts()
    assert code == 0
    assert max(prompts) > 45000 and max(prompts[-3:]) < 45000, prompts
    assert [item["text"] for item in items_of(events, "agent_message")][-1] == "They read it."


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    return run_all(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    raise SystemExit(main())
