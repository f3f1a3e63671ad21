"""The official ollama client against a server that answers with the last message's text (tests/server/echo_server).

    test_ollama.py URL

Every reply is checked by the client's own types as it is read. scripts/test-clients runs this.
"""
import json
import sys
import time

import httpx
import ollama

from checks import Server, check, proves, run_all
from strict import Wire, ollama_types

WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "%s", "days": "3"}}\n</tool_call>'


def user(text):
    return [{"role": "user", "content": text}]


def joined(parts):
    """The whole message of a stream: text, thought and calls; and its last part."""
    content = thinking = ""
    calls = []
    last = None
    for part in parts:
        assert last is None or not last.done, "nothing comes after the last part"
        content += part.message.content or ""
        thinking += part.message.thinking or ""
        calls += part.message.tool_calls or []
        last = part
    assert last.done
    return content, thinking, calls, last


def both(client, text, **fields):
    """The answer, which is the same whole and streamed."""
    fields = {"model": "any", "messages": user(text), "tools": [WEATHER], **fields}
    whole = client.chat(**fields)
    content, thinking, calls, last = joined(client.chat(stream=True, **fields))
    assert (whole.message.content or "", whole.message.thinking or "") == (content, thinking), (whole, content, thinking)
    assert [c.function for c in whole.message.tool_calls or []] == [c.function for c in calls]
    for field in ("done_reason", "prompt_eval_count", "eval_count", "load_duration"):
        assert getattr(whole, field) == getattr(last, field), field
    return whole


def expect_error(status, text, call):
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code == status, error
        assert text in error.error, error.error
        return
    raise AssertionError(f"no error; expected {status} {text!r}")


@check
@proves("text", "stream")
def text_is_the_text(client, server):
    text = "Gr\u00fc\u00dfe \U0001F600 \"quoted\" \\ \t"
    answer = both(client, text)
    assert answer.message.content == text and answer.message.role == "assistant"
    assert answer.done and answer.done_reason == "stop" and answer.model == "any"


@check
@proves("tools", "parallel tools")
def calls_are_typed_and_parallel(client, server):
    answer = both(client, "Checking.\n" + CALL % "Oslo" + "\n" + CALL % "Rome")
    assert answer.message.content == "Checking."
    assert [dict(c.function.arguments) for c in answer.message.tool_calls] == [{"city": "Oslo", "days": 3},
                                                                              {"city": "Rome", "days": 3}]
    assert answer.done_reason == "stop"


@check
@proves("tools")
def a_function_of_python_is_a_tool(client, server):
    def weather(city: str, days: int) -> str:
        """The weather of some days.

        Args:
          city: the city
          days: how many
        """
        return f"{days} days of rain in {city}."

    first = client.chat("any", user("<think>Look.</think>" + CALL % "Oslo"), tools=[weather], think=True)
    assert first.message.thinking == "Look."
    call = first.message.tool_calls[0]
    messages = user("go") + [first.message,
                             {"role": "tool", "tool_name": call.function.name,
                              "content": weather(**call.function.arguments)}]
    second = client.chat("any", messages, tools=[weather])
    assert second.message.content == "3 days of rain in Oslo."


@check
@proves("reasoning")
def thoughts_are_shown_or_left_out(client, server):
    text = "<think>Hm.</think>Yes."
    for think in (None, True, "low", "medium", "high"):
        assert both(client, text, think=think).message.thinking == "Hm.", think
    off = both(client, text, think=False)
    assert not off.message.thinking and off.message.content == "Yes."


@check
@proves("structured output")
def formats_are_json_or_a_schema(client, server):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    for format in ("json", schema):
        answer = both(client, '{"city": "Oslo"}', format=format, tools=None)
        assert json.loads(answer.message.content) == {"city": "Oslo"}
    expect_error(400, "format", lambda: client.chat("any", user("x"), format={"$ref": "#/nowhere"}))


@check
@proves("images refused")
def images_are_refused_by_name(client, server):
    image = b"\x89PNG\r\n\x1a\n" + b"0" * 20
    expect_error(400, "vision tower",
                 lambda: client.chat("any", [{"role": "user", "content": "What is this?", "images": [image]}]))
    expect_error(400, "vision tower", lambda: client.generate("any", "What is this?", images=[image]))


@check
@proves("errors")
def errors_are_texts(client, server):
    expect_error(400, 'option "top_k" must be of type integer',
                 lambda: client.chat("any", user("x"), options={"top_k": "many"}))
    expect_error(400, "think", lambda: client.chat("any", user("x"), think="hard"))
    expect_error(400, "insert", lambda: client.generate("any", "x", suffix="y"))
    expect_error(501, "embeddings", lambda: client.embed("any", "x"))
    expect_error(501, "embeddings", lambda: client.embeddings("any", "x"))
    expect_error(501, "create", lambda: client.create("x", from_="y"))
    expect_error(501, "copy", lambda: client.copy("x", "y"))
    expect_error(501, "delete", lambda: client.delete("x"))
    expect_error(501, "push", lambda: client.push("x"))
    expect_error(501, "pull", lambda: client.pull("something-else"))


@check
@proves("errors")
def a_prompt_that_does_not_fit_says_by_how_much(client, server):
    expect_error(400, "prompt too long; exceeded max context length by",
                 lambda: client.chat("any", user("x" * 1_100_000)))


@check
@proves("usage")
def usage_counts_and_durations(client, server):
    answer = both(client, "abcdefghijkl")
    assert answer.eval_count == 3 and answer.prompt_eval_count > 12, answer
    assert answer.total_duration > 0 and isinstance(answer.eval_duration, int)


@check
def limits_end_for_length(client, server):
    answer = both(client, "abcdefghijklmnop", options={"num_predict": 2})
    assert answer.done_reason == "length" and answer.message.content == "abcdefghij"


@check
def stop_strings_end_the_text(client, server):
    assert both(client, "One. END two", options={"stop": ["END"]}).message.content == "One. "


@check
def generate_gives_responses_and_context(client, server):
    whole = client.generate("any", "Hello there", system="Be brief.")
    assert whole.response == "Hello there" and whole.done and whole.context
    parts = list(client.generate("any", "Hello there", system="Be brief.", stream=True))
    assert "".join(part.response for part in parts) == "Hello there" and parts[-1].done
    assert client.generate("any", "And now?", context=list(whole.context)).response == "And now?"
    raw = client.generate("any", "<turn>user:<think>a</think>b", raw=True)
    assert raw.response == "<think>a</think>b" and not raw.context and not raw.thinking
    assert client.generate("any", "<think>a</think>b").thinking == "a"


@check
def an_empty_request_loads(client, server):
    assert client.generate("any", "").done_reason == "load"
    assert client.chat("any", []).done_reason == "load"
    assert client.generate("any", keep_alive=0).done_reason == "unload"


@check
def the_model_is_listed_shown_and_running(client, server):
    listed = client.list().models
    assert [model.model for model in listed] == ["echo"]
    assert len(listed[0].digest) == 64 and listed[0].details.format == "gguf" and listed[0].modified_at
    shown = client.show("anything")
    assert shown.modelinfo["general.architecture"] == "llama" and "tools" in shown.capabilities
    assert shown.modelinfo["llama.context_length"] > 0
    running = client.ps().models[0]
    assert running.expires_at.year == 2318 and running.context_length > 0
    assert client.pull("echo").status == "success"
    assert [p.status for p in client.pull("echo", stream=True)] == ["success"]


@check
def an_engine_that_fails_is_told_also_in_mid_stream(client, server):
    for stream in (False, True):
        expect_error(-1 if stream else 500, "engine failed", lambda: joined_or_whole(client, stream))


def joined_or_whole(client, stream):
    answer = client.chat("any", user("Hello, world|FAIL|"), stream=stream)
    return joined(answer) if stream else answer


@check
def logprobs_have_their_form(client, server):
    answer = client.chat("any", user("x"), logprobs=True, top_logprobs=2)
    assert answer.logprobs is None or all(entry.token for entry in answer.logprobs)


@check
@proves("abort")
def a_client_that_stops_reading_ends_the_answer(client, server):
    started = time.monotonic()
    stream = client.chat("any", user("x" * 100_000), stream=True)
    next(iter(stream))
    stream.close()
    assert client.chat("any", user("next")).message.content == "next"
    assert time.monotonic() - started < 20


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=80)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(ollama_types()))
    client = ollama.Client(host=server.url, timeout=60, transport=server.wire.transport(httpx))
    return run_all(client, server, client="ollama (Python)", packages=("ollama",))


if __name__ == "__main__":
    raise SystemExit(main())
