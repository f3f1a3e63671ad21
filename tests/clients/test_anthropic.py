"""The official anthropic client against a running server.

    test_anthropic.py URL          e.g. http://127.0.0.1:11435

Needs a small instruct model; nothing here depends on what it says. test_anthropic_echo.py has what does.
scripts/test-clients starts a server and runs this.
"""
import concurrent.futures
import sys

import anthropic

from checks import PROMPTS, Server, check, run_all
from strict import Wire, anthropic_types


def fields_of(prompt, temperature=0, **fields):
    # Newer clients have no argument for the temperature.
    return {"model": "claude-any", "max_tokens": 48, "messages": [{"role": "user", "content": prompt}],
            "extra_body": {"temperature": temperature}, **fields}


def ask(client, prompt, **fields):
    return client.messages.create(**fields_of(prompt, **fields))


def ask_streamed(client, prompt, **fields):
    with client.messages.stream(**fields_of(prompt, **fields)) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == text_of(message)
    return message


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def essence(message):
    """What stays the same when the answer is made again, from a warm cache perhaps."""
    usage = message.usage
    prompt = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return text_of(message), message.stop_reason, message.stop_sequence, prompt, usage.output_tokens


@check
def stream_and_whole_answer_are_the_same_message(client, server):
    for prompt in PROMPTS:
        whole = ask(client, prompt)
        assert text_of(whole), f"an empty answer to {prompt!r}"
        assert whole.role == "assistant" and whole.type == "message" and whole.model == "claude-any"
        assert essence(ask_streamed(client, prompt)) == essence(whole)


@check
def four_clients_at_once_get_what_they_get_alone(client, server):
    alone = [essence(ask(client, prompt)) for prompt in PROMPTS]
    for how in (ask, ask_streamed):
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
            assert [essence(m) for m in pool.map(lambda prompt: how(client, prompt), PROMPTS)] == alone


@check
def counted_tokens_are_those_of_the_request(client, server):
    for extra in ({}, {"system": "You are terse."}, {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                  {"tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]}):
        fields = fields_of(PROMPTS[3], max_tokens=1, **extra)
        counted = client.messages.count_tokens(**{k: fields[k] for k in fields if k not in ("max_tokens", "extra_body")})
        assert counted.input_tokens == essence(client.messages.create(**fields))[3]


@check
def a_prompt_of_any_length_is_counted(client, server):
    counted = client.messages.count_tokens(model="any", messages=[{"role": "user", "content": "word " * 50_000}])
    assert counted.input_tokens >= 50_000


@check
def a_second_identical_request_is_read_from_the_cache_and_has_the_same_total(client, server):
    first, second = (ask(client, PROMPTS[1]) for _ in range(2))
    assert essence(first) == essence(second)
    assert second.usage.cache_read_input_tokens > 0 and second.usage.cache_creation_input_tokens == 0


@check
def a_billing_line_that_changes_does_not_lose_the_cache(client, server):
    def system(n):
        return [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.36; cch={n}"},
                {"type": "text", "text": "Some rules. " * 40}]
    first, second = (ask(client, PROMPTS[1], system=system(n)) for n in (1, 2))
    assert essence(first) == essence(second)
    assert second.usage.cache_read_input_tokens > 100


@check
def max_tokens_ends_the_answer(client, server):
    answer = ask(client, PROMPTS[0], max_tokens=5)
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 5
    assert text_of(ask(client, "Say hi.", max_tokens=20_000, stop_sequences=["."])) is not None


@check
def a_stop_sequence_ends_the_text_before_itself_and_is_named(client, server):
    text = text_of(ask(client, PROMPTS[0]))
    for length in (1, 3, 9):
        stop = text[12:12 + length]
        for how in (ask, ask_streamed):
            answer = how(client, PROMPTS[0], stop_sequences=["never \u2603", stop])
            assert text_of(answer) == text[:text.index(stop)]
            assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == stop


@check
def thinking_may_be_asked_of_a_model_that_has_none(client, server):
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"}):
        assert text_of(ask(client, PROMPTS[0], thinking=thinking, temperature=1))


@check
def a_conversation_with_tools_and_history_is_answered(client, server):
    answer = client.messages.create(
        model="any", max_tokens=16, system=[{"type": "text", "text": "You are terse.",
                                                           "cache_control": {"type": "ephemeral"}}],
        tools=[{"name": "weather", "description": "The weather.",
                "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}],
        messages=[{"role": "user", "content": "Weather in Oslo?"},
                  {"role": "assistant", "content": [{"type": "text", "text": "Let me see."},
                                                    {"type": "tool_use", "id": "toolu_1", "name": "weather",
                                                     "input": {"city": "Oslo"}}]},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
                                                "content": [{"type": "text", "text": "Rain."}]}]}])
    assert answer.content


@check
def the_beta_route_is_the_same_route(client, server):
    answer = client.beta.messages.create(betas=["context-1m-2025-08-07", "some-future-beta"], **fields_of(PROMPTS[0]))
    assert text_of(answer) == text_of(ask(client, PROMPTS[0]))


@check
def the_model_is_listed(client, server):
    models = client.models.list().data
    assert len(models) == 1 and models[0].type == "model" and models[0].display_name == models[0].id


@check
def leaving_a_stream_frees_the_slot(client, server):
    with server.cancels_one():
        stream = client.messages.create(stream=True, **fields_of("Write a very long story.", max_tokens=4000))
        for _ in range(4):
            next(stream)
        stream.close()


@check
def leaving_a_whole_answer_frees_the_slot(client, server):
    with server.cancels_one():
        server.leave_whole_answer("/v1/messages", max_tokens=4000, temperature=0,
                                  messages=[{"role": "user", "content": "Write a very long story."}])


def expect_error(kind, call, message):
    try:
        call()
    except kind as error:
        body = error.body
        assert body["type"] == "error" and body["error"]["type"] == error.type
        assert body["error"]["message"].startswith(message), body
        assert error.request_id.startswith("req_") and body["request_id"] == error.request_id
        return
    raise AssertionError(f"no {kind.__name__}")


@check
def errors_are_the_clients_own_exceptions(client, server):
    bad = anthropic.BadRequestError
    expect_error(bad, lambda: ask(client, "x", temperature=9), "temperature: 9 is not between 0 and 2")
    expect_error(bad, lambda: ask(client, "x", max_tokens=0), "max_tokens: 0 is not at least 1")
    expect_error(bad, lambda: ask(client, "x", messages=[]), "messages: at least one message is needed")
    expect_error(bad, lambda: ask(client, "x", tool_choice={"type": "any"}), "tool_choice.type: there are no tools to call")
    image = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]
    expect_error(bad, lambda: ask(client, image), "messages.0.content.0.source: image input needs a vision tower")
    expect_error(anthropic.NotFoundError, lambda: client.messages.batches.list(), "There is no GET /v1/messages/batches")
    expect_error(bad, lambda: ask(client, "word " * 200_000), "prompt is too long: ")


@check
def every_reply_was_strictly_of_the_clients_types(client, server):
    server.wire.check(at_least=80)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    server = Server(sys.argv[1], Wire(anthropic_types()))
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0,
                                 http_client=server.wire.client(anthropic.DefaultHttpxClient, timeout=300))
    return run_all(client, server)


if __name__ == "__main__":
    raise SystemExit(main())
