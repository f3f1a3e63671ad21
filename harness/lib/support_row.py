"""One row of the support table: asks a running server over HTTP, and prints the cells.

    support_row.py MODEL.gguf URL < facts      facts: what `tempo9 inspect --full` says; URL: empty when nothing serves

load      the server came up
text      one of a few short questions is answered with the word that it asks for (small models know little), and asked
          again, each gives the same answer; all at temperature 0
10k       a fact near the beginning of 10,000 tokens or more of real text is given back at the end
thinking  the thought comes apart from the answer when it is asked for, and does not come when it is not
image     not run: there is no image input yet
"""
import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PASS, FAIL, NOT_RUN, NOT_CLAIMED = "PASS", "FAIL", "—", "N/A"
LONG_TOKENS = 10_000

# In a form that a model which only continues text can answer, too.
QUESTIONS = [
    ("Complete this sentence: The capital of France is", "Paris"),
    ("Repeat this line: The quick brown fox jumps over 13 lazy dogs.", "13 lazy dogs"),
    ("Explain in two sentences why the sky is blue.", "light"),
]
CODE = "7249"
FACT = f"Note: the access code of the lighthouse is {CODE}."
LONG_QUESTION = "What is the access code of the lighthouse? The access code of the lighthouse is"


class Failed(Exception):
    pass


def post(url, body):
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1800) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise Failed(f"HTTP {error.code}: {error.read().decode(errors='replace')[:300]}") from error
    except OSError as error:
        raise Failed(str(error)) from error


def ask(url, text, max_tokens=64, **more):
    """The answer's message, and how many tokens were read."""
    answer = post(url, {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": max_tokens,
                        **more})
    return answer["choices"][0]["message"], answer["usage"]["prompt_tokens"]


def check_text(url):
    answers = []
    for question, word in QUESTIONS:
        first = ask(url, question)[0].get("content") or ""
        if first != (ask(url, question)[0].get("content") or ""):
            raise Failed(f"two answers to: {question}")
        answers.append(first)
        if word.lower() in first.lower():
            return
    raise Failed(f"answers: {answers}")


def real_text():
    """Prose and code of this repository, always in the same order."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "src").rglob("*.h"))]
    return "\n\n".join(path.read_text() for path in files)


def check_long(url):
    text = real_text()
    n_chars = int(3.5 * LONG_TOKENS)  # a guess that is corrected
    for _ in range(3):
        prompt = text[:1000] + f"\n\n{FACT}\n\n" + text[1000:n_chars] + "\n\n" + LONG_QUESTION
        message, n_tokens = ask(url, prompt, max_tokens=24)
        if n_tokens >= LONG_TOKENS:
            if CODE in (message.get("content") or ""):
                return
            raise Failed(f"after {n_tokens} tokens: {message.get('content')!r}")
        n_chars = int(1.05 * n_chars * LONG_TOKENS / n_tokens)
    raise Failed(f"only {n_tokens} tokens of text")


def check_thinking(url):
    question = "What is the capital of France?"
    marks = ("<think>", "</think>")
    for is_on in (True, False):
        message = ask(url, question, 256, chat_template_kwargs={"enable_thinking": is_on})[0]
        content = message.get("content") or ""
        thought = message.get("reasoning_content") or message.get("reasoning") or ""
        if any(mark in content for mark in marks) or not content.strip() or bool(thought.strip()) != is_on:
            raise Failed(f"thinking {'on' if is_on else 'off'}: thought {thought!r}, answer {content!r}")


def cell(name, check, url):
    try:
        check(url)
        return PASS
    except Failed as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return FAIL


def main():
    model, url = sys.argv[1], sys.argv[2]
    name = os.path.basename(model)
    metadata = json.load(sys.stdin).get("metadata", {})
    architecture = metadata.get("general.architecture", "?")
    template = metadata.get("tokenizer.chat_template", "")
    cells = [FAIL, NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN]
    if url:
        context = metadata.get(f"{architecture}.context_length", 0)
        long_fits = context >= LONG_TOKENS + LONG_TOKENS // 10
        cells = [
            PASS,
            cell(f"{name}: text", check_text, url),
            cell(f"{name}: 10k context", check_long, url) if long_fits else NOT_CLAIMED,
            cell(f"{name}: thinking", check_thinking, url) if "enable_thinking" in template else NOT_CLAIMED,
            NOT_RUN if "image" in template else NOT_CLAIMED,
        ]
    print("| " + " | ".join([name, architecture, *cells]) + " |")
    return 1 if FAIL in cells else 0


if __name__ == "__main__":
    sys.exit(main())
