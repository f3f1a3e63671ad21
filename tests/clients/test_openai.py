"""The official openai client against a running server.

    test_openai.py URL          e.g. http://127.0.0.1:11435

Needs a small instruct model; nothing here depends on what it says. scripts/test-clients starts a server and runs this.
"""
import concurrent.futures
import json
import sys

import jsonschema
import openai

from checks import Server, check, run_all
from strict import Wire, openai_types

PROMPTS = [
    "Why is the sky blue?",
    "Name three rivers in Europe.",
    "Write a short poem about rain.",
    "How do I boil an egg?",
    "Count from one to twenty.",
    "What is a prime number?",
    "Tell me a story about a fox. \U0001F98A",
    "Translate 'good morning' to French.",
]


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TEXT = {"type": "string", "maxLength": 40}
SCHEMAS = [
    closed(name=TEXT, age={"type": "integer", "minimum": 0, "maximum": 150}),
    closed(colour={"enum": ["red", "green", "blue"]}, is_warm={"type": "boolean"}),
    closed(rivers={"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3}),
    closed(day={"type": "string", "format": "date"}, id={"type": "string", "format": "uuid"}),
    closed(code={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}),
    closed(value={"anyOf": [{"type": "number"}, {"type": "null"}]}, kind={"const": "reading"}),
    closed(point={"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "items": False,
                  "minItems": 2}),
    {**closed(tree={"$ref": "#/$defs/node"}),
     "$defs": {"node": closed(label=TEXT, leaves={"type": "array", "items": TEXT, "maxItems": 2})}},
    closed(address=closed(street=TEXT, city=TEXT), note={"type": ["string", "null"], "maxLength": 20}),
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}], "additionalProperties": True},
]


def ask(client, prompt, **fields):
    fields = {"model": "any", "temperature": 0, "max_tokens": 48, **fields}
    return client.chat.completions.create(messages=[{"role": "user", "content": prompt}], **fields)


def text_of(client, prompt, **fields):
    return ask(client, prompt, **fields).choices[0].message.content


def streamed_text(client, prompt, **fields):
    text = ""
    finish = None
    for chunk in ask(client, prompt, stream=True, **fields):
        assert finish is None or not chunk.choices, "nothing but usage comes after the finish reason"
        for choice in chunk.choices:
            assert choice.index == 0
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert finish in ("stop", "length")
    return text


@check
def stream_and_whole_answer_are_the_same_text(client, server):
    for prompt in PROMPTS:
        whole = text_of(client, prompt)
        assert whole, f"an empty answer to {prompt!r}"
        assert streamed_text(client, prompt) == whole


@check
def eight_clients_at_once_get_what_they_get_alone(client, server):
    alone = [text_of(client, prompt, max_tokens=64) for prompt in PROMPTS]
    for how in (text_of, streamed_text):
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
            together = list(pool.map(lambda prompt: how(client, prompt, max_tokens=64), PROMPTS))
        assert together == alone


@check
def one_prompt_eight_times_at_once_gives_one_text(client, server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = set(pool.map(lambda _: text_of(client, PROMPTS[0]), range(8)))
    assert len(texts) == 1, texts


@check
def leaving_a_stream_frees_the_slot(client, server):
    with server.cancels_one():
        stream = ask(client, "Write a very long story.", stream=True, max_tokens=4000)
        for _ in range(4):
            next(stream)
        stream.close()


@check
def leaving_a_whole_answer_frees_the_slot(client, server):
    with server.cancels_one():
        server.leave_whole_answer("/v1/chat/completions", max_tokens=4000, temperature=0,
                                  messages=[{"role": "user", "content": "Write a very long story."}])
    assert server.metric("tempo9_kv_pages_used") == 0, "all pages are given back"


@check
def max_tokens_ends_with_length(client, server):
    for field in ("max_tokens", "max_completion_tokens"):
        answer = ask(client, PROMPTS[4], **{"max_tokens": openai.NOT_GIVEN, field: 5})
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 5
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + 5


@check
def more_tokens_than_the_context_are_clamped(client, server):
    assert ask(client, "Say hi.", max_tokens=10**9, stop=["."]).choices[0].message.content


@check
def a_stop_string_ends_the_text_before_itself(client, server):
    text = text_of(client, PROMPTS[0])
    for length in (1, 3, 9):
        stop = text[12:12 + length]
        expected = text[:text.index(stop)]
        assert text_of(client, PROMPTS[0], stop=stop) == expected
        assert streamed_text(client, PROMPTS[0], stop=["never \u2603", stop]) == expected


@check
def the_same_seed_gives_the_same_text(client, server):
    def sample(seed):
        return text_of(client, PROMPTS[2], temperature=1.5, seed=seed)
    assert sample(7) == sample(7)
    assert len({sample(seed) for seed in range(4)}) > 1
    assert len({sample(openai.NOT_GIVEN) for _ in range(4)}) > 1


@check
def logprobs_are_one_entry_per_token_and_join_to_the_text(client, server):
    choice = ask(client, PROMPTS[1], logprobs=True, top_logprobs=5, max_tokens=16).choices[0]
    entries = choice.logprobs.content
    assert b"".join(bytes(e.bytes) for e in entries).decode() == choice.message.content
    for entry in entries:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 5
        values = [t.logprob for t in entry.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert entry.logprob == values[0], "at temperature 0 the most likely token is chosen"
    streamed = []
    for chunk in ask(client, PROMPTS[1], logprobs=True, top_logprobs=5, max_tokens=16, stream=True):
        if chunk.choices and chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == entries


@check
def a_bias_of_minus_100_forbids_and_a_penalty_changes(client, server):
    plain = text_of(client, PROMPTS[4])
    assert text_of(client, PROMPTS[4], frequency_penalty=2) != plain
    banned = {str(token): -100 for token in range(1000)}
    assert text_of(client, PROMPTS[4], logit_bias=banned) != plain


@check
def usage_comes_in_the_last_chunk_when_asked_for(client, server):
    chunks = list(ask(client, PROMPTS[0], stream=True, max_tokens=8, stream_options={"include_usage": True}))
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"


@check
def the_model_is_listed_and_answers_to_any_name(client, server):
    models = client.models.list().data
    assert len(models) == 1 and models[0].object == "model" and models[0].created > 0
    assert client.models.retrieve("org/other:tag").id == "org/other:tag"
    assert ask(client, "hi", model="gpt-4o", max_tokens=1).model == "gpt-4o"


@check
def a_conversation_with_system_and_history_is_answered(client, server):
    answer = client.chat.completions.create(
        model="any", temperature=0, max_tokens=16,
        messages=[{"role": "system", "content": "You are terse."},
                  {"role": "user", "content": [{"type": "text", "text": "My name is Ada."}]},
                  {"role": "assistant", "content": "Hello Ada."},
                  {"role": "user", "content": "What is my name?"}])
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content


def expect_error(kind, call, **attributes):
    try:
        call()
    except kind as error:
        for name, value in attributes.items():
            assert getattr(error, name) == value, f"{name} is {getattr(error, name)!r}, not {value!r}"
        assert error.response.headers["x-request-id"].startswith("req_")
        return error
    raise AssertionError(f"no {kind.__name__}")


def formatted(schema, strict=False):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}


@check
def answers_under_a_schema_are_valid(client, server):
    for i, schema in enumerate(SCHEMAS):
        for temperature in (0, 1):
            choice = ask(client, PROMPTS[i % len(PROMPTS)], response_format=formatted(schema), max_tokens=400,
                         temperature=temperature, seed=i).choices[0]
            if choice.finish_reason == "length":  # numbers and white space may go on; what is there is no answer
                continue
            jsonschema.validate(json.loads(choice.message.content), schema)


@check
def json_mode_answers_with_an_object(client, server):
    choice = ask(client, "Describe a cat as JSON.", response_format={"type": "json_object"}, max_tokens=600).choices[0]
    assert choice.finish_reason == "length" or isinstance(json.loads(choice.message.content), dict)


@check
def a_schema_changes_no_other_answer(client, server):
    free = text_of(client, PROMPTS[0])
    held = text_of(client, PROMPTS[1], response_format=formatted(SCHEMAS[0]))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        frees = [pool.submit(text_of, client, PROMPTS[0]) for _ in range(2)]
        helds = [pool.submit(text_of, client, PROMPTS[1], response_format=formatted(SCHEMAS[0])) for _ in range(2)]
    assert {f.result() for f in frees} == {free}
    assert {f.result() for f in helds} == {held}


@check
def a_required_tool_is_called_with_arguments_by_its_schema(client, server):
    parameters = closed(city=TEXT, days={"type": "integer", "minimum": 1, "maximum": 7})
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in ("rain", "sun")]
    for choice in ("required", {"type": "function", "function": {"name": "sun"}}):
        answer = ask(client, "Tell me a joke.", tools=tools, tool_choice=choice, parallel_tool_calls=False,
                     max_tokens=200).choices[0]
        assert answer.finish_reason == "tool_calls", answer
        (call,) = answer.message.tool_calls
        assert call.function.name == "sun" or choice == "required"
        jsonschema.validate(json.loads(call.function.arguments), parameters)


@check
def errors_are_the_clients_own_exceptions(client, server):
    bad = openai.BadRequestError
    expect_error(bad, lambda: ask(client, "x", temperature=9), param="temperature", code="invalid_value")
    expect_error(bad, lambda: ask(client, "x", temperature="hot"), param="temperature", code="invalid_type")
    expect_error(bad, lambda: ask(client, "x", n=99), param="n", code="invalid_value")
    expect_error(bad, lambda: ask(client, "x", max_tokens=0), param="max_tokens", code="invalid_value")
    expect_error(bad, lambda: client.chat.completions.create(model="any", messages=[]), param="messages")
    expect_error(bad, lambda: ask(client, "x", response_format=formatted({"type": "number", "multipleOf": 3}, True)),
                 param="response_format", code="invalid_schema")
    expect_error(openai.NotFoundError, lambda: client.get("/nothing/here", cast_to=object), status_code=404)
    expect_error(openai.InternalServerError, lambda: client.embeddings.create(model="any", input="x"),
                 status_code=501, code="unsupported_endpoint")
    error = expect_error(bad, lambda: ask(client, "word " * 200_000), code="context_length_exceeded", param="messages")
    assert "maximum context length is" in error.message


TOOLS = [{"type": "function",
          "function": {"name": "get_weather", "description": "Current weather of a city",
                       "parameters": {"type": "object",
                                      "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                                      "required": ["city"]}}}]


def joined_stream(client, messages, **fields):
    """Content and calls of a streamed answer, put together as the library's own helper would."""
    content, calls, finish = "", [], None
    for chunk in client.chat.completions.create(model="any", messages=messages, temperature=0, stream=True, **fields):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                if call.id:
                    assert call.index == len(calls) and call.type == "function"
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments
            finish = choice.finish_reason or finish
    return content, calls, finish


@check
def tools_are_offered_and_the_stream_equals_the_whole_answer(client, server):
    for prompt in ("What is the weather in Oslo?", "Say hi.", "Call get_weather for Rome and for Paris."):
        messages = [{"role": "user", "content": prompt}]
        fields = {"tools": TOOLS, "max_tokens": 64}
        choice = client.chat.completions.create(model="any", messages=messages, temperature=0, **fields).choices[0]
        calls = [[c.function.name, c.function.arguments] for c in choice.message.tool_calls or []]
        assert (choice.finish_reason == "tool_calls") <= bool(calls)
        assert joined_stream(client, messages, **fields) == (choice.message.content or "", calls, choice.finish_reason)
        for name, arguments in calls if choice.finish_reason == "tool_calls" else []:
            assert name and isinstance(json.loads(arguments), dict)


@check
def a_tool_loop_in_the_history_is_answered(client, server):
    calls = [{"id": f"call_{city}", "type": "function",
              "function": {"name": "get_weather", "arguments": json.dumps({"city": city})}} for city in ("Oslo", "Rome")]
    messages = [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Weather in Oslo and Rome?"},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "call_Rome", "content": "sunny"},
                {"role": "tool", "tool_call_id": "call_Oslo", "content": "rain"}]
    answer = client.chat.completions.create(model="any", messages=messages, tools=TOOLS, temperature=0, max_tokens=32)
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=200)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(openai_types()))
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none",
                           http_client=server.wire.client(openai.DefaultHttpxClient, timeout=300))
    return run_all(client, server)


if __name__ == "__main__":
    raise SystemExit(main())
