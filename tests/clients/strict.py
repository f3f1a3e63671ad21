"""Every reply of a server, read strictly into the types of an official client.

    wire = Wire(openai_types())
    client = openai.OpenAI(http_client=wire.client(openai.DefaultHttpxClient, timeout=60), ...)

The client works as ever; `wire` reads along. Its check() holds every body and every event that came to the client's own
pydantic models: right types without conversion, and no field that the models do not know but those of `more`.
"""
import dataclasses
import json
import re
import sys
import threading
import typing

import pydantic


@dataclasses.dataclass
class Types:
    """What a path answers with: `bodies` and `events` by regular expressions of paths; the last one that fits counts."""
    bodies: dict
    events: dict
    errors: object  # of every body with an error status, and of events that tell of one
    is_error_event: typing.Callable
    skipped_events: tuple = ()  # regular expressions of whole data of events that are no types of the client's
    more: frozenset = frozenset()  # (type, field) that are sent beyond the models


def openai_types():
    import openai.types as chat
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.responses import Response, ResponseStreamEvent
    from openai.types.shared import ErrorObject

    models = pydantic.create_model("Models", object=typing.Literal["list"], data=list[chat.Model])
    # A chunk has the type of a whole completion, which does not know that the reason comes with the last one only.
    finish = typing.Optional[chat.CompletionChoice.model_fields["finish_reason"].annotation]
    choice = pydantic.create_model("CompletionChoice", __base__=chat.CompletionChoice, finish_reason=(finish, ...))
    chunk = pydantic.create_model("CompletionChunk", __base__=chat.Completion, choices=list[choice])
    return Types(
        bodies={r"/v1/chat/completions": ChatCompletion, r"/v1/completions": chat.Completion, r"/v1/responses": Response,
                r"/v1/responses/.*": Response, r"/v1/models": models, r"/v1/models/.*": chat.Model},
        events={r"/v1/chat/completions": ChatCompletionChunk, r"/v1/completions": chunk,
                r"/v1/responses": ResponseStreamEvent},
        errors=pydantic.create_model("Error", error=ErrorObject), is_error_event=lambda data: "error" in data and "object" not in data and "type" not in data,
        # The second is sent when nothing else is for ten seconds; the client passes it on.
        skipped_events=(r"\[DONE\]", r'\{"type":"keepalive","sequence_number":\d+\}'), more=OPENAI_MORE)


# Members of the API's objects that the client leaves out; reasoning beside the text; what lists of models say more.
OPENAI_MORE = frozenset({
    ("Response", "store"), ("ResponseCustomToolCall", "status"), ("ResponseFunctionCallArgumentsDoneEvent", "name"),
    ("Logprob", "bytes"), ("LogprobTopLogprob", "bytes"),
    ("ChatCompletionMessage", "reasoning_content"), ("ChoiceDelta", "reasoning_content"),
    *(("Model", name) for name in ("type", "display_name", "created_at", "context_length", "max_model_len")),
    *(("Models", name) for name in ("has_more", "first_id", "last_id"))})


def anthropic_types():
    from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
    from anthropic.types.shared import ErrorResponse

    return Types(bodies={r"/v1/messages": Message, r"/v1/messages/count_tokens": MessageTokensCount},
                 events={r"/v1/messages": RawMessageStreamEvent}, errors=ErrorResponse,
                 is_error_event=lambda data: data.get("type") == "error", skipped_events=(r'\{"type":"ping"\}',))


def ollama_types():
    import ollama

    error = pydantic.create_model("Error", error=str)
    version = pydantic.create_model("Version", version=str)
    bodies = {r"/api/chat": ollama.ChatResponse, r"/api/generate": ollama.GenerateResponse, r"/api/tags": ollama.ListResponse,
              r"/api/ps": ollama.ProcessResponse, r"/api/show": ollama.ShowResponse, r"/api/pull": ollama.ProgressResponse,
              r"/api/version": version}
    return Types(bodies=bodies, events=bodies, errors=error, is_error_event=lambda data: "error" in data, more=OLLAMA_MORE)


# Of the API, and not yet of the client.
OLLAMA_MORE = frozenset({("ToolCall", "id"), ("Function", "index"), ("Model", "capabilities"), ("Model", "name"),
                         ("ModelDetails", "context_length"), ("ModelDetails", "embedding_length")})


def unknown_fields(raw, read):
    """(type, field) for what is in the JSON value and not in the models that it was read into."""
    if isinstance(read, pydantic.BaseModel):
        fields = {field.alias or name: name for name, field in type(read).model_fields.items()}
        for key, value in raw.items():
            if key not in fields:
                yield type(read).__name__, key
            else:
                yield from unknown_fields(value, getattr(read, fields[key]))
    elif isinstance(read, dict):
        for key, value in read.items():
            yield from unknown_fields(raw[key], value)
    elif isinstance(read, (list, tuple)):
        for one_raw, one in zip(raw, read):
            yield from unknown_fields(one_raw, one)


def read_strictly(kind, text, more=frozenset()):
    """`text`, JSON, as `kind`; raises for what is not of its types."""
    read = pydantic.TypeAdapter(kind).validate_json(text, strict=True)
    unknown = set(unknown_fields(json.loads(text), read)) - more
    assert not unknown, f"fields that the types do not have: {sorted(unknown)}"
    return read


class Wire:
    def __init__(self, kinds):
        self.kinds = kinds
        self.replies = []  # (path, status, content type, bytes)
        self.lock = threading.Lock()

    def client(self, kind, **options):
        """For the client library's http_client. `kind`: the library's own class of them, by which it is told which httpx
        the library is made for."""
        base = next(one for one in kind.__mro__ if one.__name__ == "Client")
        return base(transport=self.transport(sys.modules[base.__module__.split(".")[0]]), **options)

    def transport(self, http):
        """`http`: the module httpx, or what has its interface."""
        return recording_transport(http, self)

    def keep(self, *reply):
        with self.lock:
            self.replies.append(reply)

    def check(self, at_least=1):
        """All that came is of the client's types, and at least so many events and bodies came."""
        n_read, faults = 0, []
        with self.lock:
            replies = list(self.replies)
        for path, status, kind, data in replies:
            for one, text in self.parts(path, status, kind, data):
                n_read += 1
                try:
                    read_strictly(one, text, self.kinds.more)
                except Exception as error:  # the next ones are looked at too
                    faults.append(f"{path} {status}: {error}\n  {text[:400]}")
        assert not faults, f"{len(faults)} of {n_read}:\n" + "\n".join(faults[:10])
        assert n_read >= at_least, f"{n_read} bodies and events only"
        return n_read

    def parts(self, path, status, kind, data):
        """(type, JSON text) for the body, or for each event that came whole."""
        if status >= 400:
            yield self.kinds.errors, data.decode()
        elif kind.startswith("text/event-stream"):
            for event in data.decode(errors="replace").split("\n\n")[:-1]:
                yield from self.event(path, [line for line in event.split("\n") if not line.startswith(":")])
        elif kind.startswith("application/x-ndjson"):
            for line in data.decode(errors="replace").split("\n")[:-1]:
                yield self.kind_of(self.kinds.events, path, line), line
        elif one := find(self.kinds.bodies, path):
            yield one, data.decode()

    def event(self, path, lines):
        text = "".join(line[len("data: "):] for line in lines if line.startswith("data: "))
        if text and not any(re.fullmatch(one, text) for one in self.kinds.skipped_events):
            yield self.kind_of(self.kinds.events, path, text), text

    def kind_of(self, events, path, text):
        return self.kinds.errors if self.kinds.is_error_event(json.loads(text)) else find(events, path)


def find(table, path):
    found = [kind for pattern, kind in table.items() if re.fullmatch(pattern, path)]
    return found[-1] if found else None


def recording_transport(http, wire):
    class Stream(http.SyncByteStream):
        def __init__(self, stream, keep):
            self.stream, self.keep, self.data = stream, keep, b""

        def __iter__(self):
            for part in self.stream:
                self.data += part
                yield part

        def close(self):
            self.stream.close()
            self.keep(self.data)

    class Transport(http.HTTPTransport):
        def handle_request(self, request):
            response = super().handle_request(request)
            if request.method == "DELETE":
                return response
            kind = response.headers.get("content-type", "")
            stream = Stream(response.stream, lambda data: wire.keep(request.url.path, response.status_code, kind, data))
            return http.Response(response.status_code, headers=response.headers, stream=stream, extensions=response.extensions)

    return Transport()
