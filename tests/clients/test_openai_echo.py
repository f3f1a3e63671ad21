"""The official openai client against a server that answers with the last message's text (tests/server/echo_server).

    test_openai_echo.py URL

Tool calls, thoughts and what else a model would have to be made to say. scripts/test-clients runs this.
"""
import json
import sys

import openai
import pydantic

from checks import Server, check, proves, run_all
from strict import Wire, openai_types

WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "%s", "days": "3"}}\n</tool_call>'


class Message:
    """What a client has of an answer."""

    def __init__(self):
        self.content = self.reasoning = ""
        self.calls = []
        self.finish = self.usage = None

    def add_delta(self, delta):
        self.content += delta.content or ""
        self.reasoning += getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or []:
            if call.id:
                assert call.index == len(self.calls) and call.type == "function"
                self.calls.append([call.function.name, ""])
            self.calls[call.index][1] += call.function.arguments or ""


def ask(client, text, **fields):
    fields = {"messages": [{"role": "user", "content": text}], **fields}
    return client.chat.completions.create(model="any", **fields)


def whole_message(client, text, **fields):
    answer = ask(client, text, **fields)
    given = answer.choices[0].message
    message = Message()
    message.content = given.content or ""
    message.reasoning = getattr(given, "reasoning_content", "")
    message.calls = [[call.function.name, call.function.arguments] for call in given.tool_calls or []]
    message.finish = answer.choices[0].finish_reason
    message.usage = answer.usage
    return message


def streamed_message(client, text, **fields):
    message = Message()
    for chunk in ask(client, text, stream=True, stream_options={"include_usage": True}, **fields):
        message.usage = chunk.usage or message.usage
        for choice in chunk.choices:
            message.add_delta(choice.delta)
            message.finish = choice.finish_reason or message.finish
    return message


def both(client, text, **fields):
    """The answer, which is the same whole and streamed."""
    whole, streamed = whole_message(client, text, **fields), streamed_message(client, text, **fields)
    for name in ("content", "reasoning", "calls", "finish"):
        assert getattr(whole, name) == getattr(streamed, name), (name, vars(whole), vars(streamed))
    assert whole.usage.completion_tokens == streamed.usage.completion_tokens
    return whole


def expect_error(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"no error; expected {text!r}")


@check
@proves("text", "stream")
def text_is_the_text(client, server):
    text = "Gr\u00fc\u00dfe \U0001F600 \"quoted\" \\ \t"
    assert both(client, text).content == text


@check
@proves("tools", "parallel tools")
def calls_are_typed_and_parallel(client, server):
    answer = both(client, "Both.\n" + CALL % "Oslo" + "\n" + CALL % "Rome", tools=[WEATHER])
    assert answer.content == "Both." and answer.finish == "tool_calls"
    assert [json.loads(arguments) for _, arguments in answer.calls] == [{"city": "Oslo", "days": 3},
                                                                       {"city": "Rome", "days": 3}]
    single = both(client, CALL % "Oslo" + CALL % "Rome", tools=[WEATHER], parallel_tool_calls=False)
    assert len(single.calls) == 1


@check
@proves("reasoning")
def thoughts_are_beside_the_text(client, server):
    answer = both(client, "<think>\nHm.\n</think>\n\nYes.")
    assert answer.reasoning == "Hm." and answer.content == "Yes."
    assert both(client, "<think>Hm.</think>Yes.", reasoning_effort="none").reasoning == ""


@check
@proves("structured output")
def a_value_is_parsed_by_its_class(client, server):
    class Weather(pydantic.BaseModel):
        city: str
        days: int

    answer = client.chat.completions.parse(model="any", response_format=Weather,
                                           messages=[{"role": "user", "content": '{"city": "Oslo", "days": 3}'}])
    assert answer.choices[0].message.parsed == Weather(city="Oslo", days=3)


@check
@proves("images refused")
def images_are_refused_by_name(client, server):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    error = expect_error(openai.BadRequestError, "vision tower",
                         lambda: ask(client, "", messages=[{"role": "user", "content": [image]}]))
    assert error.code == "unsupported_content" and error.param == "messages[0].content[0]"


@check
@proves("errors")
def errors_have_their_kinds(client, server):
    error = expect_error(openai.BadRequestError, "temperature", lambda: ask(client, "x", temperature="hot"))
    assert error.code == "invalid_type" and error.param == "temperature"
    long = expect_error(openai.BadRequestError, "maximum context length",
                        lambda: ask(client, "x" * 1_100_000, stream=True))
    assert long.code == "context_length_exceeded"
    expect_error(openai.InternalServerError, "Embeddings", lambda: client.embeddings.create(model="any", input="x"))


@check
def an_engine_that_fails_is_told_also_in_mid_stream(client, server):
    expect_error(openai.APIError, "engine failed", lambda: streamed_message(client, "Hello, world|FAIL|"))
    expect_error(openai.InternalServerError, "engine failed", lambda: whole_message(client, "Hello, world|FAIL|"))
    prompt = {"model": "any", "prompt": "<turn>user:Hello|FAIL|"}
    expect_error(openai.APIError, "engine failed", lambda: list(client.completions.create(**prompt, stream=True)))


@check
@proves("usage")
def tokens_are_counted(client, server):
    answer = both(client, "abcdefghij")
    assert answer.usage.completion_tokens == 2 and answer.usage.total_tokens == answer.usage.prompt_tokens + 2


@check
@proves("abort")
def a_client_that_stops_reading_ends_the_answer(client, server):
    stream = ask(client, "x" * 100_000, stream=True)
    next(iter(stream))
    stream.close()
    assert whole_message(client, "next").content == "next"


@check
def several_choices_come_side_by_side(client, server):
    whole = ask(client, "abc", n=3)
    assert [(c.index, c.message.content) for c in whole.choices] == [(i, "abc") for i in range(3)]
    texts = ["", "", ""]
    for chunk in ask(client, "abcdefgh", n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["abcdefgh"] * 3


@check
def text_completions(client, server):
    prompts = ["<turn>user:one", "<turn>user:two"]
    whole = client.completions.create(model="any", prompt=prompts, n=2, max_tokens=50)
    assert [c.text for c in whole.choices] == ["one", "one", "two", "two"]
    texts = ["", ""]
    for chunk in client.completions.create(model="any", prompt=prompts, max_tokens=50, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == ["one", "two"]
    echoed = client.completions.create(model="any", prompt=prompts[0], echo=True)
    assert echoed.choices[0].text == prompts[0] + "one" and echoed.choices[0].finish_reason == "stop"
    expect_error(openai.BadRequestError, "suffix",
                 lambda: client.completions.create(model="any", prompt="x", suffix="y"))


@check
def an_answer_goes_on_with_the_last_message(client, server):
    messages = [{"role": "user", "content": "SAY:Oslo"}, {"role": "assistant", "content": "It is "}]
    answer = ask(client, "", messages=messages, extra_body={"continue_final_message": True})
    assert answer.choices[0].message.content == "Oslo"


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=80)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(openai_types()))
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                           http_client=server.wire.client(openai.DefaultHttpxClient, timeout=60))
    return run_all(client, server, client="openai (Python)", packages=("openai",))


if __name__ == "__main__":
    raise SystemExit(main())
