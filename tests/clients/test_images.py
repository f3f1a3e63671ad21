"""The official Python clients send an image to a server that says what it was shown (tests/server/echo_server --images).

    test_images.py URL

scripts/test-clients runs this.
"""
import base64
import pathlib
import sys

import anthropic
import ollama
import openai

from checks import Server, check, run_all

IMAGES = pathlib.Path(__file__).parent.parent / "goldens" / "images"
PNG = (IMAGES / "rgb.png").read_bytes()  # 13 by 9 pixels: 12 rows of the made-up encoder
SHOWN = "1 images, the last of 3 by 4 rows: what is this?"
TEXT = "what is this?"


def data_url(image=PNG):
    return "data:image/png;base64," + base64.b64encode(image).decode()


def ask_openai(clients, url):
    parts = [{"type": "image_url", "image_url": {"url": url, "detail": "low"}}, {"type": "text", "text": TEXT}]
    answer = clients["openai"].chat.completions.create(model="any", messages=[{"role": "user", "content": parts}])
    return answer.choices[0].message.content, answer.usage.prompt_tokens


def ask_responses(clients, url):
    parts = [{"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": TEXT}]
    answer = clients["openai"].responses.create(model="any", input=[{"role": "user", "content": parts}])
    return answer.output_text, answer.usage.input_tokens


def anthropic_messages(image):
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image).decode()}
    return [{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": TEXT}]}]


def ask_anthropic(clients, image):
    answer = clients["anthropic"].messages.create(model="any", max_tokens=1000, messages=anthropic_messages(image))
    return answer.content[0].text, answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)


def ask_ollama(clients, image):
    answer = clients["ollama"].chat("any", [{"role": "user", "content": TEXT, "images": [image]}])
    return answer.message.content, answer.prompt_eval_count


def refusal(function, *kinds):
    try:
        function()
    except kinds as error:
        return str(error)
    raise AssertionError("nothing was refused")


@check
def every_client_shows_the_same_image(clients, server):
    for text, tokens in (ask_openai(clients, data_url()), ask_responses(clients, data_url()),
                         ask_anthropic(clients, PNG), ask_ollama(clients, PNG)):
        assert text == SHOWN, text
        assert tokens == 1 + 1 + 5 + 14 + len(TEXT) + 1 + 10, tokens


@check
def tokens_are_counted_with_the_image(clients, server):
    counted = clients["anthropic"].messages.count_tokens(model="any", messages=anthropic_messages(PNG)).input_tokens
    assert counted == ask_anthropic(clients, PNG)[1], counted


@check
def a_screenshot_in_a_tool_result_is_shown(clients, server):
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    messages = [{"role": "user", "content": "look"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "shot", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                                              "content": [{"type": "image", "source": source}]}]}]
    answer = clients["anthropic"].messages.create(model="any", max_tokens=1000, messages=messages)
    assert answer.content[0].text.startswith("1 images, the last of 3 by 4 rows"), answer.content


@check
def what_is_not_sent_or_no_image_is_refused_by_name(clients, server):
    bad = (openai.BadRequestError, anthropic.BadRequestError, ollama.ResponseError)
    for ask in (ask_openai, ask_responses):
        assert "http(s) URLs are not supported" in refusal(lambda: ask(clients, "https://example.com/x.png"), *bad)
        assert "no known image format" in refusal(lambda: ask(clients, data_url(b"x" * 30)), *bad)
    assert "HEIC" in refusal(lambda: ask_anthropic(clients, b"\0\0\0\x18ftypheic" + b"\0" * 12), *bad)
    assert "invalid image input" in refusal(lambda: ask_ollama(clients, PNG[:60]), *bad)


@check
def vision_is_told_of(clients, server):
    assert "vision" in clients["ollama"].show("any").capabilities


def main():
    server = Server(sys.argv[1])
    clients = {"openai": openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0),
               "anthropic": anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0),
               "ollama": ollama.Client(host=server.url, timeout=60)}
    return run_all(clients, server)


if __name__ == "__main__":
    sys.exit(main())
