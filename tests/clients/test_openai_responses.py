"""The official openai client on /v1/responses against a running server.

    test_openai_responses.py URL          e.g. http://127.0.0.1:11435

Needs a small instruct model; nothing here depends on what it says. test_openai_responses_echo.py has what does.
scripts/test-clients starts a server and runs this.
"""
import concurrent.futures
import json
import sys

import jsonschema
import openai
import pydantic

from checks import PROMPTS, Server, check, run_all
from strict import Wire, openai_types


def fields_of(prompt, **fields):
    return {"model": "any", "temperature": 0, "max_output_tokens": 48, "input": prompt, **fields}


def ask(client, prompt, **fields):
    return client.responses.create(**fields_of(prompt, **fields))


def ask_streamed(client, prompt, **fields):
    text, response = "", None
    with client.responses.stream(**fields_of(prompt, **fields)) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type in ("response.completed", "response.incomplete"):  # get_final_response knows only the first
                response = event.response
    assert text == response.output_text
    return response


def essence(response):
    """What stays the same when the answer is made again, from a warm cache perhaps."""
    usage = response.usage
    return response.output_text, response.status, usage.input_tokens, usage.output_tokens, usage.total_tokens


@check
def stream_and_whole_answer_are_the_same_response(client, server):
    for prompt in PROMPTS:
        whole = ask(client, prompt)
        assert whole.output_text, f"an empty answer to {prompt!r}"
        assert whole.object == "response" and whole.model == "any" and whole.id.startswith("resp_")
        assert essence(ask_streamed(client, prompt)) == essence(whole)


@check
def four_clients_at_once_get_what_they_get_alone(client, server):
    alone = [essence(ask(client, prompt)) for prompt in PROMPTS]
    for how in (ask, ask_streamed):
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
            assert [essence(r) for r in pool.map(lambda prompt: how(client, prompt), PROMPTS)] == alone


@check
def the_answer_is_that_of_chat_completions(client, server):
    for prompt in PROMPTS:
        chat = client.chat.completions.create(model="any", temperature=0, max_tokens=48,
                                              messages=[{"role": "system", "content": "You are terse."},
                                                        {"role": "user", "content": prompt}])
        answer = ask(client, [{"role": "user", "content": prompt}], instructions="You are terse.")
        assert answer.output_text == chat.choices[0].message.content
        assert answer.usage.input_tokens == chat.usage.prompt_tokens


@check
def a_limit_is_told(client, server):
    for how in (ask, ask_streamed):
        answer = how(client, PROMPTS[0], max_output_tokens=5)
        assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
        assert answer.usage.output_tokens == 5


@check
def a_second_identical_request_is_read_from_the_cache_and_has_the_same_total(client, server):
    first, second = (ask(client, PROMPTS[1]) for _ in range(2))
    assert essence(first) == essence(second)
    assert second.usage.input_tokens_details.cached_tokens > 0


@check
def a_conversation_goes_on_by_its_id_as_by_its_items(client, server):
    for how in (ask, ask_streamed):
        first = how(client, PROMPTS[1])
        by_id = how(client, "And in Asia?", previous_response_id=first.id)
        items = [{"role": "user", "content": PROMPTS[1]}, *(item.to_dict() for item in first.output),
                 {"role": "user", "content": "And in Asia?"}]
        assert essence(by_id) == essence(how(client, items, store=False))
        assert by_id.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens


@check
def logprobs_join_to_the_text(client, server):
    for how in (ask, ask_streamed):
        answer = how(client, PROMPTS[3], include=["message.output_text.logprobs"], top_logprobs=2)
        part = answer.output[0].content[0]
        assert b"".join(bytes(entry.bytes) for entry in part.logprobs).decode() == part.text
        assert all(len(entry.top_logprobs) <= 2 and entry.logprob <= 0 for entry in part.logprobs)


@check
def a_format_holds_the_answer(client, server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
                                               "age": {"type": "integer", "minimum": 0, "maximum": 150}},
              "required": ["name", "age"], "additionalProperties": False}
    text = {"format": {"type": "json_schema", "name": "person", "strict": True, "schema": schema}}
    for how in (ask, ask_streamed):
        jsonschema.validate(json.loads(how(client, "Invent a person.", text=text, max_output_tokens=200).output_text),
                            schema)

    class Person(pydantic.BaseModel):
        name: str
        age: int

    parsed = client.responses.parse(text_format=Person, **fields_of("Invent a person.", max_output_tokens=2000))
    assert isinstance(parsed.output_parsed, Person)


@check
def a_forced_call_is_made(client, server):
    tools = [{"type": "function", "name": "weather", "description": "The weather.", "strict": True,
              "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}},
                             "required": ["city"], "additionalProperties": False}},
             {"type": "namespace", "name": "clock", "description": "Time.",
              "tools": [{"type": "function", "name": "now", "parameters": {"type": "object", "properties": {
                  "zone": {"type": "string", "maxLength": 9}}, "required": ["zone"]}}]}]
    for choice, name in ((({"type": "function", "name": "weather"}), "weather"), ("required", None),
                         ({"type": "allowed_tools", "mode": "required",
                           "tools": [{"type": "function", "name": "weather"}]}, "weather")):
        for how in (ask, ask_streamed):
            answer = how(client, "Weather in Oslo?", tools=tools, tool_choice=choice, parallel_tool_calls=False,
                         max_output_tokens=100)
            call = answer.output[0]
            assert call.type == "function_call" and name in (None, call.name), call
            json.loads(call.arguments)


@check
def reasoning_may_be_asked_of_a_model_that_has_none(client, server):
    for effort in ("none", "low", "high"):
        assert ask(client, PROMPTS[0], reasoning={"effort": effort, "summary": "auto"}).output_text


@check
def an_old_part_of_the_conversation_is_dropped_where_the_client_allows_it(client, server):
    limit = client.models.list().data[0].max_model_len
    old = [{"role": "user", "content": "word " * (limit // 3)}, {"role": "assistant", "content": "Yes."}] * 4
    items = [{"role": "developer", "content": "You are terse."}, *old, {"role": "user", "content": PROMPTS[0]}]
    try:
        ask(client, items, max_output_tokens=4)
        raise AssertionError("it fit")
    except openai.BadRequestError as error:
        assert error.code == "context_length_exceeded" and str(limit) in error.body["message"]
    answer = ask(client, items, truncation="auto", max_output_tokens=4)
    assert answer.status in ("completed", "incomplete") and answer.truncation == "auto"
    assert answer.usage.input_tokens < limit


@check
def leaving_a_stream_frees_the_slot(client, server):
    with server.cancels_one():
        stream = client.responses.create(stream=True, **fields_of("Write a very long story.", max_output_tokens=4000))
        for _ in range(6):
            next(stream)
        stream.close()


@check
def leaving_a_whole_answer_frees_the_slot(client, server):
    with server.cancels_one():
        server.leave_whole_answer("/v1/responses", max_output_tokens=4000, temperature=0, input="Write a very long story.")


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=80)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(openai_types()))
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                           http_client=server.wire.client(openai.DefaultHttpxClient, timeout=300))
    return run_all(client, server)


if __name__ == "__main__":
    raise SystemExit(main())
