"""The official anthropic client against a server that answers with the last message's text (tests/server/echo_server).

    test_anthropic_echo.py URL

Tool calls, thoughts and what else a model would have to be made to say. scripts/test-clients runs this.
"""
import json
import sys

import anthropic

from checks import Server, check, proves, run_all
from strict import Wire, anthropic_types

WEATHER = {"name": "weather", "description": "The weather.",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "%s", "days": "3"}}\n</tool_call>'
THINKING = {"type": "enabled", "budget_tokens": 1024}


def ask(client, text, **fields):
    fields = {"model": "any", "max_tokens": 1000, "tools": [WEATHER], "messages": [{"role": "user", "content": text}],
              **fields}
    return client.messages.create(**fields)


def ask_streamed(client, text, **fields):
    fields = {"model": "any", "max_tokens": 1000, "tools": [WEATHER], "messages": [{"role": "user", "content": text}],
              **fields}
    with client.messages.stream(**fields) as stream:
        return stream.get_final_message()


def expect_error(client, text, **fields):
    try:
        ask(client, "x", **fields)
    except anthropic.BadRequestError as error:
        assert text in error.message, error.message
        return
    raise AssertionError(f"no error; expected {text!r}")


def blocks(message):
    return [block.to_dict() for block in message.content]


def both(client, text, **fields):
    """The blocks of the answer, which are the same whole and streamed, but for their ids."""
    whole, streamed = ask(client, text, **fields), ask_streamed(client, text, **fields)
    without_ids = [[{k: v for k, v in block.items() if k != "id"} for block in blocks(m)] for m in (whole, streamed)]
    assert without_ids[0] == without_ids[1], without_ids
    assert whole.stop_reason == streamed.stop_reason
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    return whole


@check
@proves("text", "stream")
def text_is_the_text(client, server):
    text = "Gr\u00fc\u00dfe \U0001F600 \"quoted\" \\ \t"
    assert both(client, text).content[0].text == text


@check
@proves("tools")
def a_call_is_typed_by_its_schema(client, server):
    answer = both(client, CALL % "Oslo")
    assert answer.stop_reason == "tool_use" and len(answer.content) == 1
    call = answer.content[0]
    assert call.type == "tool_use" and call.id.startswith("toolu_01") and call.name == "weather"
    assert call.input == {"city": "Oslo", "days": 3}


@check
@proves("parallel tools", "reasoning")
def thought_text_and_parallel_calls_keep_their_order(client, server):
    text = "<think>\nTwo cities.\n</think>\n\nChecking both.\n" + CALL % "Oslo" + "\n" + CALL % "Rome"
    answer = both(client, text, thinking=THINKING)
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer.content[0].thinking == "Two cities." and answer.content[0].signature
    assert answer.content[1].text == "Checking both."
    assert [block.input["city"] for block in answer.content[2:]] == ["Oslo", "Rome"]
    single = both(client, text, thinking=THINKING, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert [block.type for block in single.content] == ["thinking", "text", "tool_use"]


@check
def a_tool_loop_goes_round(client, server):
    question = {"role": "user", "content": "<think>Look.</think>" + CALL % "Oslo"}
    first = ask(client, "", messages=[question], thinking=THINKING)
    call = first.content[-1]
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "It rains."}]}
    messages = [question, {"role": "assistant", "content": blocks(first)}, results]
    second = both(client, "", messages=messages, thinking=THINKING)
    assert second.content[0].text == "It rains." and second.stop_reason == "end_turn"
    results["content"][0]["is_error"] = True
    assert ask(client, "", messages=messages).content[0].text == "Error: It rains."


@check
def thinking_that_is_not_asked_for_is_left_out(client, server):
    assert blocks(both(client, "<think>Hm.</think>Yes.")) == [{"type": "text", "text": "Yes."}]
    omitted = both(client, "<think>Hm.</think>Yes.", thinking={"type": "adaptive", "display": "omitted"})
    assert omitted.content[0].thinking == "" and omitted.content[1].text == "Yes."


@check
def a_call_that_breaks_off_is_told_as_it_is(client, server):
    cut = (CALL % "Oslo")[:60]
    answer = ask(client, cut)
    assert all(block.type == "text" for block in answer.content) and answer.stop_reason == "end_turn"
    limited = ask(client, CALL % "Oslo", max_tokens=10)
    assert limited.stop_reason == "max_tokens" and all(block.type == "text" for block in limited.content)


@check
@proves("usage")
def the_usage_of_a_stream_is_that_of_the_whole_answer(client, server):
    text = "<think>Hm.</think>" + CALL % "Oslo"
    ask(client, text)
    whole = ask(client, text).usage
    streamed = ask_streamed(client, text).usage
    assert whole.cache_read_input_tokens > 0, "the prompt is the one before"
    for field in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"):
        assert getattr(whole, field) == getattr(streamed, field), field


@check
def events_come_in_the_order_of_the_api(client, server):
    text = "<think>Hm.</think>Hello" + CALL % "Oslo"
    kinds = [event.type for event in client.messages.create(
        model="any", max_tokens=1000, stream=True, tools=[WEATHER], thinking=THINKING,
        messages=[{"role": "user", "content": text}])]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3


@check
@proves("structured output")
def a_schema_is_taken(client, server):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
              "additionalProperties": False}
    answer = both(client, '{"city": "Oslo"}', tools=[],
                  output_config={"format": {"type": "json_schema", "schema": schema}})
    assert json.loads(answer.content[0].text) == {"city": "Oslo"}


@check
def a_forced_call_is_taken(client, server):
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        assert both(client, CALL % "Oslo", tool_choice=choice).stop_reason == "tool_use"


@check
def an_answer_goes_on_with_the_last_message(client, server):
    messages = [{"role": "user", "content": "SAY:Oslo"}, {"role": "assistant", "content": "It is "}]
    assert ask(client, "", messages=messages).content[0].text == "Oslo"


@check
@proves("images refused")
def images_are_refused_by_name_and_noted_in_results(client, server):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
    expect_error(client, "vision tower", messages=[{"role": "user", "content": [image]}])
    messages = [{"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "weather", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [image]}]}]
    assert "image left out" in ask(client, "", messages=messages).content[0].text


@check
@proves("errors")
def errors_say_the_path(client, server):
    expect_error(client, "temperature: ", extra_body={"temperature": 7})
    expect_error(client, "prompt is too long: ", messages=[{"role": "user", "content": "x" * 1_100_000}])


@check
def an_engine_that_fails_is_told_also_in_mid_stream(client, server):
    for how in (ask, ask_streamed):
        try:
            how(client, "Hello, world|FAIL|")
            raise AssertionError("no error")
        except anthropic.APIStatusError as error:
            assert error.body["error"] == {"type": "api_error", "message": "engine failed"}, error.body


@check
@proves("abort")
def a_client_that_stops_reading_ends_the_answer(client, server):
    with client.messages.stream(model="any", max_tokens=100_000,
                                messages=[{"role": "user", "content": "x" * 100_000}]) as stream:
        next(iter(stream.text_stream))
    assert ask(client, "next").content[0].text == "next"


@check
def the_tool_runner_calls_the_function_and_ends(client, server):
    if not hasattr(client.beta.messages, "tool_runner"):
        return
    asked = []

    @anthropic.beta_tool
    def weather(city: str, days: int) -> str:
        """The weather of some days."""
        asked.append((city, days))
        return "Sun."

    runner = client.beta.messages.tool_runner(model="any", max_tokens=500, tools=[weather],
                                              messages=[{"role": "user", "content": CALL % "Oslo" + CALL % "Rome"}])
    last = runner.until_done()
    assert asked == [("Oslo", 3), ("Rome", 3)], asked
    assert last.content[0].text == "Sun." and last.stop_reason == "end_turn"


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=80)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(anthropic_types()))
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0,
                                 http_client=server.wire.client(anthropic.DefaultHttpxClient, timeout=60))
    return run_all(client, server, client="anthropic (Python)", packages=("anthropic",))


if __name__ == "__main__":
    raise SystemExit(main())
