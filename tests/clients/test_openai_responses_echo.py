"""The official openai client on /v1/responses against a server that answers with the last message's text
(tests/server/echo_server).

    test_openai_responses_echo.py URL

Every object and every event is read into the client's own types, strictly. scripts/test-clients runs this.
"""
import base64
import json
import sys
import urllib.request

import openai
import pydantic
from openai.types.responses import Response, ResponseStreamEvent

from checks import Server, check, proves, run_all
from strict import OPENAI_MORE, Wire, openai_types, read_strictly

WEATHER = {"type": "function", "name": "weather", "description": "The weather.", "strict": False,
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits."}
AGENTS = {"type": "namespace", "name": "agents", "description": "Agents.", "tools": [
    {"type": "function", "name": "spawn", "parameters": {"type": "object", "properties": {"n": {"type": "number"}}}}]}
TOOLS = [WEATHER, PATCH, AGENTS]

def call(name, arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


OSLO = call("weather", {"city": "Oslo", "days": "3"})
ROME = call("weather", {"city": "Rome"})


def fields_of(text, fields):
    return {"model": "any", "tools": TOOLS, "input": text, **fields}


def ask(client, text, **fields):
    raw = client.responses.with_raw_response.create(**fields_of(text, fields))
    read_strictly(Response, raw.text, OPENAI_MORE)
    return raw.parse()


def events_of(server, text, **fields):
    """Of the stream as it comes over the wire; keepalive is no type of the client's."""
    body = json.dumps({"stream": True, **fields_of(text, fields)}).encode()
    events = []
    with urllib.request.urlopen(urllib.request.Request(server.url + "/v1/responses", body), timeout=60) as reply:
        for event in reply.read().decode().strip().split("\n\n"):
            name, data = event.split("\n")
            assert name == "event: " + json.loads(data[6:])["type"]
            events.append(read_strictly(ResponseStreamEvent, data[6:], OPENAI_MORE))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events


def ask_streamed(client, server, text, **fields):
    with client.responses.stream(**fields_of(text, fields)) as stream:
        for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                joined = event.response
    last = events_of(server, text, **fields)[-1].response
    assert essence(joined) == essence(last)
    return joined


def essence(response):
    """What stays the same when the answer is made again."""
    whole = response.to_dict()
    items = [{k: v for k, v in item.items() if k not in ("id", "call_id", "parsed_arguments")}
             for item in whole["output"]]
    for item in items:
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return items, whole["status"], whole.get("incomplete_details"), whole["usage"]["output_tokens"]


def both(client, server, text, **fields):
    """The answer, which is the same whole and streamed, but for its ids."""
    whole, streamed = ask(client, text, **fields), ask_streamed(client, server, text, **fields)
    assert essence(whole) == essence(streamed), (essence(whole), essence(streamed))
    return whole


def kinds(response):
    return [item.type for item in response.output]


@check
@proves("text", "stream")
def text_is_the_text(client, server):
    text = "Gr\u00fc\u00dfe \U0001F600 \"quoted\" \\ \t"
    answer = both(client, server, text)
    assert answer.output_text == text and answer.status == "completed" and answer.error is None


@check
@proves("tools")
def a_call_is_typed_by_its_schema(client, server):
    answer = both(client, server, OSLO)
    assert kinds(answer) == ["function_call"]
    item = answer.output[0]
    assert item.name == "weather" and json.loads(item.arguments) == {"city": "Oslo", "days": 3}
    assert item.id.startswith("fc_") and item.call_id.startswith("call_")


@check
def a_tool_of_a_namespace_is_named_by_both(client, server):
    for name in ("agents__spawn", "agents.spawn", "spawn"):
        item = both(client, server, call(name, {"n": 5e2})).output[0]
        assert (item.namespace, item.name, item.arguments) == ("agents", "spawn", '{"n": 500}'), item


@check
def a_custom_tool_is_given_text(client, server):
    text = "*** Begin Patch\n+\u00fc \"q\" \\\n*** End Patch\n"
    item = both(client, server, call("apply_patch", {"input": text})).output[0]
    assert item.type == "custom_tool_call" and item.input == text and item.name == "apply_patch"


@check
@proves("reasoning", "parallel tools")
def thought_text_and_parallel_calls_keep_their_order(client, server):
    text = "<think>\nTwo cities.\n</think>\n\nChecking both.\n" + OSLO + "\n" + ROME
    answer = both(client, server, text, reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"])
    assert kinds(answer) == ["reasoning", "message", "function_call", "function_call"]
    thought = answer.output[0]
    assert [part.text for part in thought.summary] == ["Two cities."] and thought.content is None
    assert base64.b64decode(thought.encrypted_content) == b"t9:Two cities."
    assert answer.output_text == "Checking both."
    plain = both(client, server, text)
    assert plain.output[0].summary == [] and plain.output[0].content[0].text == "Two cities."
    assert kinds(both(client, server, text, reasoning={"effort": "none"})) == kinds(answer)[1:]
    assert kinds(both(client, server, text, parallel_tool_calls=False)) == kinds(answer)[:3]


@check
def events_come_in_the_order_of_the_api(client, server):
    types = [event.type for event in events_of(server, "<think>Hm.</think>Hello" + OSLO)]
    assert types[:2] == ["response.created", "response.in_progress"] and types[-1] == "response.completed"
    assert types.count("response.output_item.added") == types.count("response.output_item.done") == 3


@check
@proves("structured output")
def a_value_is_parsed_by_its_class(client, server):
    class Weather(pydantic.BaseModel):
        city: str
        days: int

    answer = client.responses.parse(model="any", text_format=Weather, input='{"city": "Oslo", "days": 3}')
    assert answer.output_parsed == Weather(city="Oslo", days=3)


@check
@proves("abort")
def a_client_that_stops_reading_ends_the_answer(client, server):
    stream = client.responses.create(model="any", input="x" * 100_000, stream=True)
    next(iter(stream))
    stream.close()
    assert ask(client, "next").output_text == "next"


@check
def a_limit_leaves_the_answer_incomplete(client, server):
    for text in ("Some text that is longer than this.", "<think>A thought that is longer than that.", OSLO):
        answer = both(client, server, text, max_output_tokens=len(text) // 5 - 4)
        assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
        assert answer.output[-1].status == "incomplete" and answer.usage.output_tokens == len(text) // 5 - 4


@check
def a_tool_loop_goes_round_by_ids(client, server):
    first = ask(client, "<think>Look.</think>" + OSLO)
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "It rains."}
    second = both(client, server, [result], previous_response_id=first.id)
    assert second.output_text == "It rains." and second.previous_response_id == first.id
    third = ask(client, "And now?", previous_response_id=second.id)
    assert third.output_text == "And now?"
    assert third.usage.input_tokens > second.usage.input_tokens > first.usage.input_tokens


@check
@proves("tools", "usage")
def a_tool_loop_goes_round_by_items(client, server):
    question = {"role": "user", "content": "<think>Look.</think>" + OSLO + call("apply_patch", {"input": "x"})}
    first = ask(client, [question], store=False, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"})
    items = [item.to_dict() for item in first.output]
    results = [{"type": "function_call_output", "call_id": first.output[1].call_id, "output": "It rains."},
               {"type": "custom_tool_call_output", "call_id": first.output[2].call_id,
                "output": [{"type": "input_text", "text": "Patched."}]}]
    second = both(client, server, [question, *items, *results], store=False)
    assert second.output_text == "Patched."
    assert second.usage.input_tokens_details.cached_tokens > 0


@check
def stored_responses_are_shown_and_deleted(client, server):
    answer = ask(client, "Keep this.")
    shown = client.responses.with_raw_response.retrieve(answer.id)
    read_strictly(Response, shown.text, OPENAI_MORE)
    assert shown.parse().to_dict() == answer.to_dict()
    client.responses.delete(answer.id)
    unstored = ask(client, "Not this.", store=False)
    for response_id in (answer.id, unstored.id):
        for how in (lambda: client.responses.retrieve(response_id), lambda: client.responses.delete(response_id)):
            try:
                how()
                raise AssertionError("it is there")
            except openai.NotFoundError as error:
                assert error.code == "response_not_found"
        try:
            ask(client, "On.", previous_response_id=response_id)
            raise AssertionError("it was gone on from")
        except openai.BadRequestError as error:
            assert error.code == "previous_response_not_found" and error.param == "previous_response_id"


@check
def a_prompt_that_is_too_long_is_refused_before_the_stream(client, server):
    for how in (lambda text: ask(client, text), lambda text: events_of_client(client, text)):
        try:
            how("word " * 250_000)
            raise AssertionError("it fit")
        except openai.BadRequestError as error:
            assert error.code == "context_length_exceeded" and error.param == "input"
            assert error.body["message"].startswith("This model's maximum context length is 1000000 tokens. "
                                                    "However, your messages resulted in 1250")


def events_of_client(client, text):
    return list(client.responses.create(model="any", input=text, stream=True))


@check
def an_engine_that_fails_is_told_also_in_mid_stream(client, server):
    last = events_of_client(client, "Hello, world|FAIL|")[-1]
    assert last.type == "response.failed" and last.response.error.message == "engine failed", last
    try:
        ask(client, "Hello, world|FAIL|")
        raise AssertionError("no error")
    except openai.InternalServerError as error:
        assert "engine failed" in error.message


@check
@proves("errors", "images refused")
def errors_are_the_clients_own_exceptions(client, server):
    image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
    for fields, param, code in ((dict(input=image), "input[0].content[0].type", "unsupported_content"),
                                (dict(background=True), "background", "unsupported_parameter"),
                                (dict(temperature=9), "temperature", "invalid_value"),
                                (dict(tool_choice={"type": "web_search"}), "tool_choice", "unsupported_parameter")):
        try:
            client.responses.create(**{"model": "any", "input": "x", **fields})
            raise AssertionError(f"no error for {fields}")
        except openai.BadRequestError as error:
            assert (error.param, error.code) == (param, code), error.body
            assert error.request_id.startswith("req_")


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=80)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(openai_types()))
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                           http_client=server.wire.client(openai.DefaultHttpxClient, timeout=60))
    return run_all(client, server, client="openai, Responses (Python)", packages=("openai",))


if __name__ == "__main__":
    raise SystemExit(main())
