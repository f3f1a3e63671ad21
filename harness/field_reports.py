#!/usr/bin/env python3
"""Faults that people reported of other servers, tried on tempo9: tool calls, templates, APIs and clients, prefix and disk
cache, load and bad input, speculation, reasoning, structured output, sampling, speed (groups a, b, d to g, i to l; d to g
and l are in lib/).

    harness/field_reports.py [--binary PATH] [--only ID,ID] [--shared DIR]

Serves the trained qwen35 of DIR/models (thinking, XML calls, recurrent layers) and SmolLM2; what needs no model goes
through `tempo9 parse` and `tempo9 render`, with templates of DIR/templates; caches, speculation and speed have servers of
their own, Gemma 3 too. DIR defaults to ../shared. Prints a table: what was tried, PASS, FAIL, or GAP for what is known not
to be there, with figures or the reason. --only takes a group's letter too. Exit code 1 when something FAILs. Beside the
binary there must be echo_server and the test programs of the build.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "harness" / "lib"))

from reports import (FORCED, TOOL_PROMPT, Gap, Server, Tools, is_valid, loop, questions, report,  # noqa: E402
                     same, try_all, schema_format, tool)
import reports_api  # noqa: E402, F401: group d
import reports_cache  # noqa: E402, F401: group e
import reports_load  # noqa: E402, F401: group f
import reports_speculation  # noqa: E402, F401: group g
import reports_speed  # noqa: E402, F401: group l

# --- (a) tool calls

@report("A01", "type of the arguments in each dialect")
def a01(t, h, q):
    parameters = tool()["function"]["parameters"]
    more = {"/v1/chat/completions": FORCED,
            "/v1/responses": {"tools": [{"type": "function", "name": "weather", "parameters": parameters}], "tool_choice": "required"},
            "/v1/messages": {"tools": [{"name": "weather", "input_schema": parameters}], "tool_choice": {"type": "any"}},
            "/api/chat": {"tools": [tool()]}}
    found = {
        "/v1/chat/completions": lambda a: [c["function"]["arguments"] for c in a["choices"][0]["message"]["tool_calls"]],
        "/v1/responses": lambda a: [i["arguments"] for i in a["output"] if i["type"] == "function_call"],
        "/v1/messages": lambda a: [b["input"] for b in a["content"] if b["type"] == "tool_use"],
        "/api/chat": lambda a: [c["function"]["arguments"] for c in a["message"].get("tool_calls", [])]}
    for path, body in questions(TOOL_PROMPT).items():
        status, answer = h.post({**body, **more[path], "think": False}, path)
        same(status, 200)
        kind = str if path.startswith(("/v1/chat", "/v1/resp")) else dict
        arguments = found[path](answer)
        assert arguments and all(isinstance(a, kind) for a in arguments), answer
        same(h.post({**body, **more[path], "stream": True}, path)[0], 200)


@report("A03", "ids of 50 tool turns")
def a03(t, h, q):
    ids = []
    for i in range(25):
        for stream in (False, True):
            calls = q.chat(f"Turn {i}.", stream=stream, parallel_tool_calls=False, seed=i, temperature=1, tools=[
                tool(required=["on"], on={"type": "boolean"})], tool_choice="required")["message"]["tool_calls"]
            ids += [c["id"] for c in calls]
    assert len(ids) == 50 and all(ids) and len(set(ids)) == 50, ids


@report("A04", "text of parameters that is no XML")
def a04(t, h, q):
    for value in ("pwd && ls -la", "a<b", "&amp;", "]]>", "<![CDATA[x]]>", "a\n\n<b>\n"):
        same(t.xml_value(value, type="string"), value)


@report("A06", "function tag without its wrapper")
def a06(t, h, q):
    text = "<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"
    parsed = t.parse("qwen-xml", text)
    same(parsed["calls"], [{"name": "weather", "arguments_json": '{"city":"Oslo"}'}])
    same(parsed["content"], "")


@report("A07", "prose before, between and after calls")
def a07(t, h, q):
    one = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    for text, content in ((f"Let me see.\n{one}", "Let me see."), (f"{one}\nDone.", "Done."),
                          (f"First.\n{one}\nthen\n{one}\nDone.", "First.\nthen\nDone.")):
        parsed = t.parse("hermes-json", text)
        same((len(parsed["calls"]), parsed["content"].split()), (text.count("<tool_call>"), content.split()))


@report("A09", "arguments in the history that are no JSON")
def a09(t, h, q):
    for server in (h, q):
        messages = [*loop(arguments="{"), {"role": "user", "content": "And now?"}]
        status, answer = server.post({"messages": messages, "max_tokens": 4})
        assert status == 200 or (status == 400 and "1" in json.dumps(answer)), answer


@report("A11", "union of constants")
def a11(t, h, q):
    same(t.xml_value("decision", anyOf=[{"const": "decision"}, {"const": "note"}]), "decision")
    same(t.xml_value("b", oneOf=[{"enum": ["a"]}, {"enum": ["b"]}]), "b")


@report("A12", "integers behind anyOf, allOf, $ref")
def a12(t, h, q):
    for schema in ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 5}, {"allOf": [{"type": "integer"}]},
                   {"type": ["integer", "null"]}, {"oneOf": [{"type": "null"}, {"type": "integer"}]}):
        same(t.xml_value("5", **schema), 5)
        same(t.xml_value('"5"', **schema), 5)


@report("A14", "text where a number is declared")
def a14(t, h, q):
    for kind in ("integer", "number", "boolean"):
        for value in ("all", "2024-05-01", "", "  ", "five"):
            same(t.xml_value(value, type=kind), value)


@report("A16", "the words null, None, True")
def a16(t, h, q):
    for word in ("null", "None", "True", "yes"):
        same(t.xml_value(word, type="string"), word)
    same(t.xml_value("yes", type="boolean"), "yes")
    same(t.xml_value("null", type=["string", "null"]), None)
    same(t.xml_value("null", type="boolean"), "null")


@report("A17", "untyped parameters")
def a17(t, h, q):
    for value, json_value in (('{"a":1}', {"a": 1}), ("[1]", [1]), ("123", "123"), ("true", "true")):
        same(t.xml_value(value, description="anything"), json_value)


@report("A18", "braces and quotes inside strings")
def a18(t, h, q):
    for value in ("mkdir -p test/{test1,test2", "}}\"{", "a\\\"b", "[[["):
        text = '<tool_call>\n{"name": "write", "arguments": ' + json.dumps({"text": value}) + "}\n</tool_call>"
        same(json.loads(t.parse("hermes-json", text)["calls"][0]["arguments_json"]), {"text": value})


@report("A19", "long text that is not ASCII, streamed")
def a19(t, h, q):
    value = "日本語 😀 é\n" * 200
    text = '<tool_call>\n{"name": "write", "arguments": ' + json.dumps({"text": value}, ensure_ascii=False) + "}\n</tool_call>"
    same(json.loads(t.parse("hermes-json", text)["calls"][0]["arguments_json"]), {"text": value})


@report("A20", "several calls with different separators")
def a20(t, h, q):
    one = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    for n in (2, 5):
        for between in ("", "\n", "\n\nand\n"):
            same(len(t.parse("hermes-json", between.join([one] * n))["calls"]), n)


@report("A22", "a required call that the prompt does not ask for")
def a22(t, h, q):
    for server in (h, q):
        for i in range(10):
            choice = server.chat(f"What is {i} + 2? Answer in words.", temperature=0.8, seed=i, max_tokens=400,
                                 tools=[tool("calculator", required=["a"], a={"type": "integer", "maximum": 999})],
                                 tool_choice="required", parallel_tool_calls=False)
            assert choice["finish_reason"] == "tool_calls", choice
            assert isinstance(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["a"], int)


@report("A24", "the finish reason says tool_calls only beside calls")
def a24(t, h, q):
    for server in (h, q):
        for stream in (False, True):
            choice = server.chat("Hello", stream=stream, max_tokens=2, **FORCED)
            assert choice["finish_reason"] == "length" and not choice["message"].get("tool_calls"), choice


@report("A25", "arguments stream")
def a25(t, h, q):
    for server in (h, q):
        gaps = server.gaps({"messages": [{"role": "user", "content": "Write a long text."}], "max_tokens": 500,
                            "tools": [tool("write", required=["text"], text={"type": "string", "minLength": 600})],
                            "tool_choice": "required", "temperature": 0.8, "seed": 1})
        assert max(gaps[1:]) < 2 and len(gaps) > 50, (len(gaps), max(gaps))


@report("A27", "parser chosen without flags, and said")
def a27(t, h, q):
    assert "tool_dialect=qwen-xml" in h.log.read_text() and "tool_dialect=generic" in q.log.read_text()
    calls = h.chat(TOOL_PROMPT, tools=[tool()], chat_template_kwargs={"enable_thinking": False})["message"].get("tool_calls")
    assert calls and calls[0]["function"]["name"] == "weather", calls


@report("A28", "null ids in the history")
def a28(t, h, q):
    for server in (h, q):
        status, answer = server.post({"messages": [*loop(ids=(None, None)), {"role": "user", "content": "Thanks."}],
                                      "max_tokens": 4})
        same(status, 200)


# --- (b) templates

@report("B01", "system messages anywhere")
def b01(t, h, q):
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}
    for messages in ([system, user], [system, user, system, user], [user, system], [system, system, user]):
        same(h.post({"messages": messages, "max_tokens": 4})[0], 200)


@report("B03", "an assistant turn without text")
def b03(t, h, q):
    for server in (h, q):
        for ids in (("c1",), ("c1", "c2")):
            for content in (None, "", "absent"):
                messages = loop(content=content, ids=ids)
                if content == "absent":
                    del messages[1]["content"]
                same(server.post({"messages": messages, "tools": [tool()], "max_tokens": 4})[0], 200)


@report("B05", "tools in the prompt as Transformers writes them")
def b05(t, h, q):
    description = "temp > 10 & humidity < 50 (user's choice) a/b"
    one = {"type": "function", "function": {"name": "z", "description": description, "parameters": {
        "type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}}}
    text = t.render(t.shared / "templates/Qwen-Qwen3-0.6B.jinja", {"messages": [{"role": "user", "content": "x"}], "tools": [one]})
    assert json.dumps(one, ensure_ascii=False) in text, text


@report("B07", "training-only tags")
def b07(t, h, q):
    same(t.render("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
                  {"messages": [{"role": "user", "content": "x"}]}), "x")


@report("B08", "each feature of templates; an error has a place")
def b08(t, h, q):
    body = {"messages": [{"role": "user", "content": "abc"}]}
    for template, text in (("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
                           ("{% macro f(x, y=2) %}{{ x }}{{ y }}{% endmacro %}{{ f(1) }}", "12"),
                           ("{% set n = namespace(a=1) %}{% for i in [1] %}{% set n.a = 5 %}{% endfor %}{{ n.a }}", "5"),
                           ("{{ messages[0].content[::-1] }}{{ messages[-1].content[:2] }}", "cbaab"),
                           ("{% set b %}x{% endset %}{{ b }}{% filter upper %}y{% endfilter %}", "xY"),
                           ("{% macro r(n) %}{{ n }}{% if n %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(2) }}", "210")):
        same(t.render(template, body), text)
    assert re.search(r"\d", t.render("{% if %}", body, status=1))


@report("B10", "a template that wants typed content")
def b10(t, h, q):
    template = "{% for m in messages %}{% for p in m.content %}{{ p.source_lang }}>{{ p.text }}{% endfor %}{% endfor %}"
    part = {"type": "text", "text": "hi", "source_lang": "en"}
    text = t.render(template, {"messages": [{"role": "user", "content": [part]}]})
    same(text, "en>hi")
    refusing = "{% if messages[0].content is string %}{{ raise_exception('content must be parts') }}{% endif %}" + template
    assert "content must be parts" in t.render(refusing, {"messages": [{"role": "user", "content": "hi"}]}, status=1)


@report("B11", "the last message is the assistant's")
def b11(t, h, q):
    for content in ("", "The answer", "<think>\nHm.\n</think>\n\nThe answer"):
        for server in (h, q):
            same(server.post({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}],
                              "max_tokens": 4})[0], 200)


@report("B12", "content, reasoning and calls in one message, harmony")
def b12(t, h, q):
    template = next((t.shared / "templates").glob("*gpt-oss*.jinja"))
    text = t.render(template, {"messages": loop(content="I look.", reasoning_content="They ask."), "tools": [tool()]})
    assert "They ask." in text and "to=functions.weather" in text, text


@report("B14", "the date is the local one")
def b14(t, h, q):
    template = "{{ strftime_now('%Y-%m-%d %H') }}"
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write(template)
        file.flush()
        days = []
        for zone in ("UTC-13", "UTC+11"):  # POSIX: ahead of and behind UTC
            out = subprocess.run([t.binary, "render", "--template", file.name], capture_output=True, text=True,
                                 input='{"messages":[{"role":"user","content":"x"}]}', env={**os.environ, "TZ": zone})
            days.append(out.stdout)
            expected = subprocess.run(["date", "+%Y-%m-%d %H"], capture_output=True, text=True, env={**os.environ, "TZ": zone})
            same(out.stdout, expected.stdout.strip())
    assert days[0] != days[1]


# --- (i) reasoning

@report("I01", "the limit ends the answer inside the thought")
def i01(t, h, q):
    for n in (3, 8):
        for stream in (False, True):
            choice = h.chat("Reverse the word lantern and tell me how long it is.", stream=stream, max_tokens=n,
                            chat_template_kwargs={"enable_thinking": True})
            message = choice["message"]
            assert choice["finish_reason"] == "length" and not message.get("content") and message["reasoning_content"], choice


@report("I03", "markers as text")
def i03(t, h, q):
    parsed = t.parse("qwen-xml", "Hm.</think>\n\nThe tag `<think>` opens, `</think>` closes.", start="reasoning")
    same(parsed["content"], "The tag `<think>` opens, `</think>` closes.")
    parsed = t.parse("qwen-xml", "The tag `</think>` closes a thought.</think>\n\nYes.", start="reasoning")
    if parsed["content"] != "Yes.":
        raise Gap("a closing tag that a thought spells in ordinary tokens ends it: parsers see text, not tokens")


@report("I04", "a mode without reasoning told apart")
def i04(t, h, q):
    raise Gap("there is none: reasoning is always told from content")


@report("I05", "reasoning of a tool loop comes back into the prompt")
def i05(t, h, q):
    template = t.shared / "templates/Qwen3.5-4B.jinja"
    for key in ("reasoning_content", "reasoning"):
        assert "They ask for Ulm." in t.render(template, {"messages": loop(**{key: "They ask for Ulm."}), "tools": [tool()]})


@report("I08", "the turn ends inside the thought")
def i08(t, h, q):
    parsed = t.parse("qwen-xml", "I think that", start="reasoning")
    same((parsed["reasoning"], parsed["content"]), ("I think that", ""))
    raise Gap("such an answer is reasoning without content and finish_reason stop; nothing closes the thought for the model")


@report("I09", "stop strings are matched in content only")
def i09(t, h, q):
    choice = h.chat("Reverse the word lantern.", stop=["\n"], chat_template_kwargs={"enable_thinking": True}, max_tokens=300)
    assert choice["message"].get("content"), choice
    choice = h.chat(TOOL_PROMPT, stop=["}", "Oslo"], **FORCED)
    assert choice["finish_reason"] == "tool_calls" and json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])


# --- (j) structured output

TWO_FIELDS = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "n": {"type": "integer", "maximum": 99}},
              "required": ["name", "n"], "additionalProperties": False}


@report("J01", "thinking, then JSON by the schema")
def j01(t, h, q):
    for i in range(12):
        choice = h.chat("Extract the name and the number: Ada has 7 apples.", stream=i % 2 == 1, temperature=0.7, seed=i,
                        max_tokens=400, response_format=schema_format(TWO_FIELDS),
                        chat_template_kwargs={"enable_thinking": True})
        assert choice["finish_reason"] == "stop", choice
        is_valid(choice["message"]["content"], TWO_FIELDS)


@report("J03", "keywords that are not enforced")
def j03(t, h, q):
    unusual = {"if": {}, "then": {}, "dependentSchemas": {}, "dependentRequired": {}, "unevaluatedProperties": False,
               "unevaluatedItems": False, "not": {"type": "null"}, "contains": {}, "minContains": 1, "propertyNames": {},
               "patternProperties": {}, "uniqueItems": True, "multipleOf": 3, "minProperties": 1, "maxProperties": 3,
               "$dynamicRef": "#x", "$recursiveRef": "#", "contentSchema": {}, "else": {}, "dependencies": {}}
    for keyword, value in unusual.items():
        status, answer = q.post({"messages": [{"role": "user", "content": "x"}], "max_tokens": 2,
                                 "response_format": schema_format({**TWO_FIELDS, keyword: value}, strict=True)})
        assert status == 400 and keyword in answer["error"]["message"], (keyword, status, answer)
        status, _ = q.post({"messages": [{"role": "user", "content": "x"}], "max_tokens": 2,
                            "response_format": schema_format({**TWO_FIELDS, keyword: value})})
        same(status, 200)
        assert keyword in q.log.read_text(), keyword


@report("J05", "large limits")
def j05(t, h, q):
    for key in ("maxLength", "maxItems"):
        for n in (1, 2000, 10000, 2**31):
            inner = {"type": "string", key: n} if key == "maxLength" else {"type": "array", "items": {"type": "string"}, key: n}
            started = time.monotonic()
            status, _ = q.post({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1,
                                "tools": [tool(required=["v"], v=inner)], "tool_choice": "required"})
            same(status, 200)
            assert time.monotonic() - started < 2


@report("J07", "references and recursion")
def j07(t, h, q):
    node = {"type": "object", "properties": {"v": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
            "required": ["v", "next"], "additionalProperties": False}
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}},
            "required": ["kids"], "additionalProperties": False}
    for schema in ({"$ref": "#/$defs/n", "$defs": {"n": node}}, tree):
        choice = q.chat("Give an example.", response_format=schema_format(schema), max_tokens=500, temperature=1, seed=3)
        if choice["finish_reason"] == "stop":
            is_valid(choice["message"]["content"], schema)


@report("J08", "patterns")
def j08(t, h, q):
    for pattern in (r"\S", "^a", "b$", r"\d{4}-\d{2}"):
        schema = {"type": "object", "properties": {"v": {"type": "string", "pattern": pattern, "maxLength": 20}},
                  "required": ["v"], "additionalProperties": False}
        choice = q.chat("Give an example.", response_format=schema_format(schema, strict=True))
        same(choice["finish_reason"], "stop")
        assert re.search(pattern, json.loads(choice["message"]["content"])["v"])
    for pattern in ("(?i)x", "(?=x)y", r"\p{L}"):
        schema = {"type": "object", "properties": {"v": {"type": "string", "pattern": pattern}}, "required": ["v"]}
        status, answer = q.post({"messages": [{"role": "user", "content": "x"}], "response_format": schema_format(schema, strict=True)})
        assert status == 400 and "pattern" in answer["error"]["message"], answer


@report("J10", "forty optional properties")
def j10(t, h, q):
    schema = {"type": "object", "properties": {f"option_{i}": {"type": "boolean"} for i in range(40)}, "additionalProperties": False}
    choice = q.chat("Give an example.", response_format=schema_format(schema), max_tokens=600, temperature=1, seed=1)
    if choice["finish_reason"] == "stop":
        is_valid(choice["message"]["content"], schema)


@report("J11", "no key that is not allowed")
def j11(t, h, q):
    for i in range(25):
        choice = q.chat("Give an example.", response_format=schema_format(TWO_FIELDS), temperature=2, seed=i, max_tokens=400)
        if choice["finish_reason"] == "stop":
            is_valid(choice["message"]["content"], TWO_FIELDS)


@report("J12", "a schema without a thought")
def j12(t, h, q):
    for more in ({"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}, {}):
        choice = h.chat("Extract the name and the number: Ada has 7 apples.", response_format=schema_format(TWO_FIELDS),
                        max_tokens=400, **more)
        is_valid(choice["message"]["content"], TWO_FIELDS)
        if more:
            assert not choice["message"].get("reasoning_content")


@report("J13", "strict tools are closed, others as JSON Schema says")
def j13(t, h, q):
    for strict in (True, False):
        for i in range(5):
            choice = q.chat("Turn everything on, please.", temperature=1.2, seed=i, max_tokens=400, tool_choice="required",
                            parallel_tool_calls=False, tools=[tool(strict=strict, required=["on"], on={"type": "boolean"})])
            if choice["finish_reason"] == "tool_calls" and strict:
                same(list(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])), ["on"])


@report("J15", "an answer that is valid anyway is not changed")
def j15(t, h, q):
    prompt = "Extract JSON with the keys name and n: Ada has 7 apples."
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    free = h.chat(prompt, **off)["message"]["content"]
    try:
        is_valid(free, {"type": "object"})
    except Exception:
        raise Gap(f"the model writes no JSON of its own here: {free!r}")
    same(h.chat(prompt, response_format={"type": "json_object"}, **off)["message"]["content"], free)


@report("J16", "reasoning and JSON together")
def j16(t, h, q):
    choice = h.chat("Extract the name: Ada has 7 apples.", response_format={"type": "json_object"}, max_tokens=600,
                    chat_template_kwargs={"enable_thinking": True})
    assert choice["message"].get("reasoning_content"), choice
    if choice["finish_reason"] == "stop":
        is_valid(choice["message"]["content"], {"type": "object"})


# --- (k) sampling, stop strings, log-probabilities

@report("K01", "penalties change the output")
def k01(t, h, q):
    plain = q.chat("Say hello 50 times.", max_tokens=60)["message"]["content"]
    for penalty in ({"frequency_penalty": 2}, {"presence_penalty": 2}, {"repeat_penalty": 1.5}):
        assert q.chat("Say hello 50 times.", max_tokens=60, **penalty)["message"]["content"] != plain, penalty


@report("K03", "seeds")
def k03(t, h, q):
    def text(seed=None):
        fields = {"temperature": 1.5, "max_tokens": 24, **({} if seed is None else {"seed": seed})}
        return q.chat("Tell me a story.", **fields)["message"]["content"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: text(), range(8)))) > 1
        same(len(set(pool.map(lambda _: text(7), range(8)))), 1)
    same(text(7), text(7))


@report("K04", "one prompt eight times at once")
def k04(t, h, q):
    for server in (h, q):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            texts = set(pool.map(lambda _: server.chat("Explain rain.", max_tokens=64)["message"]["content"], range(8)))
        same(len(texts), 1)


@report("K06", "stop strings leak nothing")
def k06(t, h, q):
    schema = schema_format({"const": "ABCDEFGHIJKLMN é😀 end"})
    for stop, text in ((["DEFGHIJ"], '"ABC'), (["EFX", "FGH", "EFGHIJ"], '"ABCDE'), (["é😀"], '"ABCDEFGHIJKLMN '), (["N é😁"], None)):
        for stream in (False, True):
            content = q.chat("x", response_format=schema, stop=stop, stream=stream)["message"]["content"]
            same(content, text or '"ABCDEFGHIJKLMN é😀 end"')


@report("K08", "log-probabilities under a schema are numbers")
def k08(t, h, q):
    choice = q.chat("Give an example.", response_format=schema_format(TWO_FIELDS), logprobs=True, top_logprobs=5)
    for entry in choice["logprobs"]["content"]:
        assert all(-1e4 < e["logprob"] <= 0 for e in (entry, *entry["top_logprobs"])), entry


@report("K09", "stop strings and log-probabilities")
def k09(t, h, q):
    choice = q.chat("Tell me about the sea.", stop=["zz", "the"], logprobs=True, max_tokens=60)
    same(bytes(b for entry in choice["logprobs"]["content"] for b in entry["bytes"]).decode(), choice["message"]["content"])


@report("K10", "log-probabilities, tools and streams")
def k10(t, h, q):
    for stream in (False, True):
        for tools in ({}, {"tools": [tool()]}):
            choice = q.chat("Hello", logprobs=True, stream=stream, max_tokens=8, **tools)
            assert choice["logprobs"] and choice["logprobs"]["content"], choice


@report("K11", "the limit is said")
def k11(t, h, q):
    said = {"/v1/chat/completions": '"finish_reason":"length"', "/v1/responses": '"incomplete_details":{"reason":"max_output_tokens"}',
            "/v1/messages": '"stop_reason":"max_tokens"', "/api/chat": '"done_reason":"length"'}
    for stream in (False, True):
        for path, body in questions("Tell me a story.", 5, stream).items():
            status, _, data = q.raw(path, json.dumps(body).encode())
            assert status == 200 and said[path] in data.decode().replace(": ", ":"), (path, data)


@report("K13", "prompt and limit above the window")
def k13(t, h, q):
    small = Server(t.binary, t.small_model, "--max-length", "256")
    try:
        choice = small.chat("Explain in many words how rain forms. " * 24, max_tokens=500)
        status, answer = small.post({"messages": [{"role": "user", "content": "Explain in many words how rain forms. " * 24}],
                                     "max_tokens": 500, "temperature": 0})
        same((status, choice["finish_reason"], answer["usage"]["total_tokens"]), (200, "length", 256))
    finally:
        small.stop()


@report("K14", "odd values of max_tokens")
def k14(t, h, q):
    def asked(path, value):
        body = {**questions("Hi", 1)[path], "stop": [" "]}
        if path == "/api/chat":
            body["options"] = {"temperature": 0, "stop": [" "], "num_predict": value}
        else:
            body["max_output_tokens" if path == "/v1/responses" else "max_tokens"] = value
        return q.post(body, path)

    expected = {-1: 400, 0: 400, "10": 400, 1.5: 400, None: 200, 10**9: 200}
    differs = {("/v1/messages", None): 400, ("/api/chat", -1): 200, ("/api/chat", 0): 200}  # required; Ollama's have meanings
    for path in questions("Hi"):
        for value, status in expected.items():
            got, answer = asked(path, value)
            assert got == differs.get((path, value), status), (path, value, got, answer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "build/release/bin/tempo9", type=pathlib.Path)
    parser.add_argument("--shared", default=ROOT.parent / "shared", type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tools = Tools(options.binary, options.shared)
    with Server(options.binary, tools.hybrid_model) as h, Server(options.binary, tools.small_model) as q:
        return 1 if try_all(options.only, tools, h, q) else 0


if __name__ == "__main__":
    sys.exit(main())
