"""Claude Code against a server whose model says what its task tells it to (tests/server/echo_server).

    test_claude_code.py ECHO_SERVER CLAUDE          both are programs

scripts/test-clients --agents runs this. Everything that Claude Code writes goes into folders of the test.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from agents import EchoServer, call, json_lines, new_folder, task_of
from checks import check, run_all

PATIENCE_S = 180


def run_claude(claude, url, folder, task):
    """The messages that Claude Code prints, one JSON object a line."""
    home = new_folder(folder / "home")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "ANTHROPIC_BASE_URL": url,
                   "ANTHROPIC_AUTH_TOKEN": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    command = [claude, "-p", "--model", "local", "--output-format", "stream-json", "--verbose",
               "--allowedTools", "Read", "Edit", "Bash"]
    done = subprocess.run(command, cwd=folder / "work", env=environment, input=task, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    messages = json_lines(done.stdout)
    assert messages and messages[-1]["type"] == "result", (done.stdout[-3000:], done.stderr[-3000:])
    return messages


def blocks_of(messages, role, kind):
    return [block for message in messages if message["type"] == role and isinstance(message["message"]["content"], list)
            for block in message["message"]["content"] if block["type"] == kind]


@check
def a_file_is_read_edited_and_run(echo_server, claude):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        work = new_folder(folder / "work", greet="echo \"hello $1\"\n")
        path = str(work / "greet")
        line = "echo \"h\u00e9llo, <$1> & 'co'\""
        answers = [
            "<think>\nFirst I read it.\n</think>\n\nReading.\n" + call("Read", file_path=path),
            call("Edit", file_path=path, old_string="echo \"hello $1\"", new_string=line),
            call("Bash", command="sh greet world", description="Greets") + "\n" +
            call("Bash", command="wc -l < greet", description="Counts lines", timeout="5000"),
            "All done: it greets.",
        ]
        with EchoServer(echo_server) as server:
            messages = run_claude(claude, server.url, folder, task_of(*answers))
        assert (work / "greet").read_text() == line + "\n", (work / "greet").read_text()
    used = [block["name"] for block in blocks_of(messages, "assistant", "tool_use")]
    assert used == ["Read", "Edit", "Bash", "Bash"], used
    results = blocks_of(messages, "user", "tool_result")
    assert not any(result.get("is_error") for result in results), results
    assert "h\u00e9llo, <world> & 'co'" in str(results), results
    last = messages[-1]
    assert last["result"] == "All done: it greets." and not last["is_error"], last
    usage = last["usage"]
    assert usage["input_tokens"] > 0 and usage["output_tokens"] > 0 and usage["cache_read_input_tokens"] > 0, usage


@check
def a_context_that_is_full_is_told_and_not_tried_again(echo_server, claude):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work")
        began = time.monotonic()
        with EchoServer(echo_server, "--context", "2000") as server:
            last = run_claude(claude, server.url, folder, "Say hello.")[-1]
        assert last["is_error"] and "too long" in last["result"], last
        assert time.monotonic() - began < 60


@check
def a_conversation_that_outgrows_the_context_is_compacted_and_goes_on(echo_server, claude):
    # Of Claude Code's first prompt, in bytes; what is read comes on top.
    first = 78_000
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new_folder(folder / "work", part="x" * 4000)
        reads = ["Part." + call("Bash", command="cat part", description=f"Part {i}") for i in range(8)]
        with EchoServer(echo_server, "--context", str(first + 17_000)) as server:
            messages = run_claude(claude, server.url, folder, task_of(*reads, "Done."))
            prompts = server.prompts()
    compactions = [message["compact_result"] for message in messages if "compact_result" in message]
    assert compactions == ["success"], (compactions, prompts)
    assert not messages[-1]["is_error"], messages[-1]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    return run_all(sys.argv[1], os.path.abspath(sys.argv[2]))


if __name__ == "__main__":
    raise SystemExit(main())
