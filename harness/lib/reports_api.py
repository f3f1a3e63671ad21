"""Field reports of group (d): API dialects and real clients."""
import base64
import json
import time

from reports import FORCED, TOOL_PROMPT, Server, call, data_of, loop, questions, report, same, tool, user

WEATHER = {"type": "function", "name": "weather", "parameters": tool()["function"]["parameters"]}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def ok(server, body, path="/v1/chat/completions"):
    status, answer = server.post({"max_tokens": 8, "max_output_tokens": 8, **body}, path)
    same((status, answer if status != 200 else None), (200, None))
    return answer


@report("D01", "Responses tools of every type")
def d01(t, h, q):
    kinds = [WEATHER, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}, {"type": "web_search"},
             {"type": "image_generation"}, {"type": "custom", "name": "patch"}, {"type": "mcp", "server_label": "m"},
             {"type": "local_shell"}, {"type": "file_search"}, {"type": "tool_search"}]
    body = {"input": TOOL_PROMPT, "tools": kinds, "tool_choice": {"type": "function", "name": "weather"}, "max_output_tokens": 300}
    answer = ok(h, body, "/v1/responses")
    assert [i["name"] for i in answer["output"] if i["type"] == "function_call"][:1] == ["weather"], answer["output"]


@report("D02", "reasoning items without a summary")
def d02(t, h, q):
    for summary in ({"summary": None}, {"summary": []}, {}):
        for server in (h, q):
            ok(server, {"input": [{"type": "reasoning", "id": "rs_1", **summary}, *user("Hi")]}, "/v1/responses")


@report("D04", "a custom tool is called as one")
def d04(t, h, q):
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    body = {"input": "Write a patch.", "tools": [{"type": "custom", "name": "apply_patch", "description": "Edits.", "format": grammar}],
            "tool_choice": {"type": "custom", "name": "apply_patch"}, "max_output_tokens": 200}
    status, answer = q.post(body, "/v1/responses")
    same(status, 200)
    same([i["type"] for i in answer["output"]][:1], ["custom_tool_call"])
    events = data_of(q.post({**body, "stream": True}, "/v1/responses")[1])
    assert "response.custom_tool_call_input.delta" in {e["type"] for e in events}
    history = [*user("Write a patch."), {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"},
               {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}]
    ok(q, {**body, "input": history, "tool_choice": "auto"}, "/v1/responses")


@report("D06", "previous_response_id, from both modes")
def d06(t, h, q):
    for stream in (False, True):
        status, first = q.post({"input": "My name is Ada.", "max_output_tokens": 8, "stream": stream}, "/v1/responses")
        same(status, 200)
        id = data_of(first)[-1]["response"]["id"] if stream else first["id"]
        second = ok(q, {"input": "What is my name?", "previous_response_id": id}, "/v1/responses")
        alone = ok(q, {"input": "What is my name?"}, "/v1/responses")
        assert second["usage"]["input_tokens"] > alone["usage"]["input_tokens"] + 5
    status, answer = q.post({"input": "x", "previous_response_id": "resp_none"}, "/v1/responses")
    same((status, answer["error"]["code"]), (400, "previous_response_not_found"))


@report("D08", "one name for reasoning out, both taken in")
def d08(t, h, q):
    message = h.chat("What is 2 + 2?", stream=True, chat_template_kwargs={"enable_thinking": True})["message"]
    assert message["reasoning_content"]
    template = t.shared / "templates/Qwen3.5-4B.jinja"
    prompts = [t.render(template, {"messages": loop(**{key: "They ask for Ulm."}), "tools": [tool()]})
               for key in ("reasoning_content", "reasoning")]
    same(prompts[0], prompts[1])


@report("D09", "usage in message_start and message_delta")
def d09(t, h, q):
    for text, limit in (("Hi", 8), ("x", 1)):
        events = data_of(q.post({"messages": user(text), "max_tokens": limit, "stream": True}, "/v1/messages")[1])
        start, delta = (next(e for e in events if e["type"] == kind) for kind in ("message_start", "message_delta"))
        assert isinstance(start["message"]["usage"]["input_tokens"], int), start
        assert isinstance(delta["usage"]["output_tokens"], int) and isinstance(delta["usage"]["input_tokens"], int), delta


@report("D11", "four shapes of a tool's result")
def d11(t, h, q):
    text = {"type": "text", "text": "sunny"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    for content in ("sunny", [text], [text, image], None):
        for is_error in (False, True):
            result = {"type": "tool_result", "tool_use_id": "t1", "is_error": is_error, **({"content": content} if content else {})}
            messages = [*user("x"), {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ulm"}}]}, {"role": "user", "content": [result]}]
            for server in (h, q):
                ok(server, {"messages": messages}, "/v1/messages")


@report("D12", "developer is a system message")
def d12(t, h, q):
    developer, system = ({"role": role, "content": "Be brief."} for role in ("developer", "system"))
    for server in (h, q):
        counts = {ok(server, {"messages": [one, *user("Hi")]})["usage"]["prompt_tokens"] for one in (developer, system)}
        same(len(counts), 1)
        ok(server, {"messages": [developer, system, *user("Hi")]})


def check_chunk(chunk, n_calls):
    """One chunk against what strict clients demand; gives how many calls have begun."""
    assert {"id", "object", "created", "model", "choices"} <= set(chunk), chunk
    if chunk.get("usage") is not None:
        assert all(isinstance(chunk["usage"][k], int) for k in ("prompt_tokens", "completion_tokens", "total_tokens")), chunk
    for choice in chunk["choices"]:
        assert isinstance(choice["index"], int) and "finish_reason" in choice and "delta" in choice, choice
        assert choice["delta"].get("tool_calls", True), "no empty list, no null"
        for one in choice["delta"].get("tool_calls") or []:
            assert isinstance(one["index"], int), one
            if one["index"] == n_calls:
                assert one["type"] == "function" and one["id"] and one["function"]["name"], one
                n_calls += 1
            assert one["index"] < n_calls
    return n_calls


@report("D13", "every chunk has what strict clients read")
@report("D24", "an index on every call's delta; usage whole or absent")
def d13(t, h, q):
    for more in ({}, FORCED, {"stream_options": {"include_usage": True}}, {**FORCED, "stream_options": {"include_usage": True}}):
        status, stream = h.post({"messages": user(TOOL_PROMPT), "max_tokens": 200, "temperature": 0, "stream": True, **more})
        same(status, 200)
        chunks, n_calls = data_of(stream), 0
        for chunk in chunks:
            n_calls = check_chunk(chunk, n_calls)
        finishes = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]]
        assert finishes[-1] and not any(finishes[:-1]), finishes
        assert (n_calls > 0) or "tools" not in more


@report("D15", "content as parts in every dialect and role")
def d15(t, h, q):
    parts = [{"type": "text", "text": "Hi"}]
    roles = [{"role": "user", "content": parts}, {"role": "assistant", "content": parts}, {"role": "user", "content": "x"}]
    for path, body in questions("").items():
        body.pop("messages", None)
        ok(q, {**body, ("input" if path == "/v1/responses" else "messages"): roles}, path)
    result = loop()
    result[-1]["content"] = parts
    ok(q, {"messages": result})
    ok(q, {"messages": [*user("x"), {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
                        {"role": "tool", "tool_name": "f", "content": parts}], "stream": False}, "/api/chat")


@report("D17", "both families of routes on one port")
@report("D21", "what an Ollama client asks for first")
def d17(t, h, q):
    for method in ("GET", "HEAD"):
        same(q.raw("/", method=method)[0], 200)
    version = json.loads(q.raw("/api/version")[2])["version"]
    assert all(part.isdigit() for part in version.split("-")[0].split(".")) and version.count(".") == 2, version
    name = json.loads(q.raw("/api/tags")[2])["models"][0]["name"]
    for key in ("model", "name"):
        shown = q.post({key: name}, "/api/show")[1]
        assert "tools" in shown["capabilities"] and "completion" in shown["capabilities"], shown["capabilities"]
    ok(q, {"messages": user("Hi")})


@report("D18", "a prompt over the context, in four dialects")
def d18(t, h, q):
    small = Server(t.binary, t.small_model, "--max-length", "512")
    try:
        text = "rain and sun " * 400
        n = small.post({"messages": user(text)}, "/v1/messages/count_tokens")[1]["input_tokens"]
        for stream in (False, True):
            answers = {path: small.post(body, path) for path, body in questions(text, 8, stream).items()}
            same({status for status, _ in answers.values()}, {400})
            for path, param in (("/v1/chat/completions", "messages"), ("/v1/responses", "input")):
                error = answers[path][1]["error"]
                same((error["type"], error["code"], error["param"]), ("invalid_request_error", "context_length_exceeded", param))
                same(error["message"], "This model's maximum context length is 512 tokens. However, your messages resulted in "
                     f"{n} tokens.")
            same(answers["/v1/messages"][1]["error"], {"type": "invalid_request_error",
                                                       "message": f"prompt is too long: {n} tokens > 512 maximum"})
            same(answers["/api/chat"][1]["error"], f"prompt too long; exceeded max context length by {n - 512} tokens "
                 f"({n} tokens, context 512)")
    finally:
        small.stop()


@report("D20", "the first byte comes before the prompt is read")
def d20(t, h, q):
    import urllib.request
    text = "The rain in Spain stays mainly in the plain. " * 300
    for path, body in questions(text, 4, True).items():
        if path == "/api/chat":
            continue  # sends nothing before the first token, so that an early failure still has its status
        body = json.dumps(body).replace("The rain", "The rain of " + path)
        started = time.monotonic()
        with urllib.request.urlopen(urllib.request.Request(q.url + path, body.encode()), timeout=600) as reply:
            reply.read(1)
            first = time.monotonic() - started
            reply.read()
        assert first < 1, f"{path}: first byte after {first:.2f} s of {time.monotonic() - started:.2f} s"


@report("D23", "an empty prompt loads; a wrong field is named")
def d23(t, h, q):
    same(ok(q, {"model": "m"}, "/api/generate")["done_reason"], "load")
    status, answer = q.post({"model": "m", "messages": user("Hi")}, "/api/generate")
    assert status == 400 and "messages" in answer["error"], (status, answer)


@report("D26", "an engine that fails in mid-stream")
def d26(t, h, q):
    with t.echo() as echo:
        streams = {path: echo.post(body, path)[1] for path, body in questions("Hello, world|FAIL|", 50, True).items()}
    chat = streams["/v1/chat/completions"]
    assert data_of(chat)[-1]["error"]["message"] == "engine failed" and chat.rstrip().endswith("data: [DONE]"), chat
    last = data_of(streams["/v1/responses"])[-1]
    same((last["type"], last["response"]["error"]["message"]), ("response.failed", "engine failed"))
    same(data_of(streams["/v1/messages"])[-1], {"type": "error", "error": {"type": "api_error", "message": "engine failed"}})
    same(data_of(streams["/api/chat"])[-1], {"error": "engine failed"})


@report("D28", "thinking can be switched off in every dialect")
def d28(t, h, q):
    off = {"/v1/chat/completions": [{"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}},
                                    {"enable_thinking": False}],
           "/v1/responses": [{"reasoning": {"effort": "none"}}], "/v1/messages": [{"thinking": {"type": "disabled"}}, {}],
           "/api/chat": [{"think": False}]}
    for stream in (False, True):
        for path, body in questions("What is 2 + 2?", 60, stream).items():
            for more in off[path]:
                text = h.raw(path, json.dumps({**body, **more}).encode())[2].decode()
                for mark in ("reasoning_content", "reasoning_text", "summary_text", "thinking_delta", '"thinking":'):
                    assert mark not in text, (path, more, mark, text[:600])


@report("D29", "tools with stream, two turns")
def d29(t, h, q):
    for stream in (False, True):
        choice = h.chat(TOOL_PROMPT, stream=stream, **FORCED)
        calls = choice["message"]["tool_calls"]
        messages = [*user(TOOL_PROMPT), {"role": "assistant", "content": None, "tool_calls": [call(
            c["function"]["name"], c["function"]["arguments"], c["id"]) for c in calls]},
            *({"role": "tool", "tool_call_id": c["id"], "content": "sunny"} for c in calls)]
        h.chat(messages, stream=stream, tools=[tool()], max_tokens=20)


@report("D31", "routes that are not there say so in JSON; prompts in each form")
def d31(t, h, q):
    paths = ["/v1/embeddings", "/v1/images/generations", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/moderations",
             "/v1/files", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/assistants", "/v1/threads", "/v1/vector_stores", "/v1/uploads",
             "/v1/conversations", "/v1/messages/batches", "/v1/complete", "/api/embed", "/api/embeddings", "/api/pull", "/api/push",
             "/api/create", "/api/copy", "/api/delete", "/api/nothing", "/nothing", "/v1/responses/x/cancel"]
    for path in paths:
        for method, data in (("GET", None), ("POST", b"{}")):
            status, headers, body = q.raw(path, data, method)
            assert 400 <= status < 502 and "json" in headers["Content-Type"], (method, path, status)
            error = json.loads(body)["error"]
            message = error if isinstance(error, str) else error["message"]
            assert message, (method, path)
            if status == 404 and path.startswith("/v1/") and path != "/v1/responses/x/cancel":
                assert "/v1/chat/completions" in message, (path, message)
    for prompt in ("Hi", ["Hi", "Ho"], [1, 2, 3], [[1, 2], [3]]):
        ok(q, {"prompt": prompt}, "/v1/completions")


@report("D32", "every refusal has a body that says what to change")
def d32(t, h, q):
    messages = user("x")
    bad = [b"", b"{", b"[]", b"null", b"5", {"messages": 1}, {"messages": []}, {"messages": [1]}, {"messages": [{}]},
           {"messages": [{"role": "nobody", "content": "x"}]}, {"messages": [{"role": "user", "content": 5}]}]
    fields = {"temperature": "hot", "top_p": 7, "tools": "x", "stream": 3, "tool_choice": 5, "stop": 5}
    named = {"/v1/responses": "max_output_tokens", "/v1/messages": "max_tokens", "/v1/chat/completions": "max_tokens"}
    for path, whole in questions("x", 8).items():
        key = "input" if path == "/v1/responses" else "messages"
        cases = [c if isinstance(c, bytes) else {**whole, key: c["messages"]} for c in bad]
        cases += [{**whole, name: value} for name, value in fields.items() if path != "/api/chat" or name in ("tools", "stream")]
        cases += [{**whole, named[path]: "many"}] if path in named else [{**whole, "options": {"top_k": "x"}}]
        n_refused = 0
        for case in cases:
            status, headers, body = q.raw(path, case if isinstance(case, bytes) else json.dumps(case).encode())
            if status == 200:
                continue
            n_refused += 1
            assert status == 400 and "json" in headers["Content-Type"] and int(headers["Content-Length"]) == len(body), (path, case)
            error = json.loads(body)["error"]
            assert (error if path == "/api/chat" else error["message"]), (path, case)
        assert n_refused >= 10, (path, n_refused)
    del messages


@report("D35", "a mistyped model")
def d35(t, h, q):
    # Lenient by documented choice: whatever is asked for, the loaded model answers, and the lists name it.
    for path, body in questions("Hi", 2).items():
        status, answer = q.post({**body, "model": "nope"}, path)
        same((status, answer["model"]), (200, "nope"))
    listed = json.loads(q.raw("/v1/models")[2])["data"][0]["id"]
    assert listed in t.small_model, listed
    same(q.raw("/v1/models/nope")[0], 200)
