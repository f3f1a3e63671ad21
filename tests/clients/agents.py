"""What the tests of agents share: a server of their own, tool calls as the model writes them, tasks whose answers are
given beforehand (tests/server/echo_server)."""
import json
import subprocess
import urllib.request


def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def task_of(*answers):
    """A task whose answers the model gives one after the other."""
    return "SAY:" + "|NEXT|".join(answers) + "ENDSAY"


class EchoServer:
    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, *options], stderr=subprocess.PIPE, text=True)
        self.url = self.process.stderr.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url

    def prompts(self):
        """How many tokens each prompt had that was answered, in their order."""
        with urllib.request.urlopen(self.url + "/status", timeout=10) as reply:
            return [request["prompt_tokens"] for request in json.load(reply)["ended"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=10)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def new_folder(folder, **files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
