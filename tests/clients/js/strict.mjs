// Every reply of a server, held against the types that an official client declares.
//
//   const wire = new Wire(openaiTypes);
//   const client = new OpenAI({ fetch: wire.fetch, ... });
//   ...
//   wire.check(100);
//
// The client works as ever; `wire` reads along. check() writes every body and every event that came as an object literal
// of the client's own type and has TypeScript compile them in strict mode: it knows missing members, wrong types, and,
// because they are literals, members that the type does not have. `more` are those that are sent beyond the types.
import assert from "node:assert/strict";
import ts from "typescript";

const REASONING = ["choices.*.message.reasoning_content", "choices.*.delta.reasoning_content"];

export const openaiTypes = {
  prelude: `import OpenAI from "openai";`,
  // A chunk of a text completion has the type of a whole one, which does not know that the reason comes last.
  of: (path, data) => data.error ? "{ error: OpenAI.ErrorObject }"
    : { "/v1/chat/completions": data.object === "chat.completion" ? "OpenAI.ChatCompletion" : "OpenAI.ChatCompletionChunk",
      "/v1/completions": "Omit<OpenAI.Completion, 'choices'> & { choices: (Omit<OpenAI.CompletionChoice, 'finish_reason'> & " +
        "{ finish_reason: OpenAI.CompletionChoice['finish_reason'] | null })[] }",
      "/v1/models": "{ object: 'list', data: OpenAI.Model[] }" }[path] ?? "OpenAI.Model",
  skipped: ["[DONE]"],
  more: [...REASONING, "has_more", "first_id", "last_id",
    ...["type", "display_name", "created_at", "context_length", "max_model_len"].flatMap((name) => [name, `data.*.${name}`])],
};

// What may be null may be left out, and so may who calls a tool: here it is always the model.
export const anthropicTypes = {
  prelude: `import Anthropic from "@anthropic-ai/sdk";
    type May<T, K extends keyof T> = unknown extends T[K] ? false : null extends T[K] ? true : K extends "caller" ? true : false;
    type Sent<T> = T extends (infer E)[] ? Sent<E>[] : T extends object
      ? { [K in keyof T as May<T, K> extends true ? K : never]?: Sent<T[K]> } &
        { [K in keyof T as May<T, K> extends true ? never : K]: Sent<T[K]> } : T;`,
  of: (path, data) => `Sent<Anthropic.${data.type === "error" ? "ErrorResponse" : data.type === "message" ? "Message"
    : path.endsWith("count_tokens") ? "MessageTokensCount" : "RawMessageStreamEvent"}>`,
  skipped: ['{"type":"ping"}'],
  more: [],
};

// As the client declares them, but that JSON has no dates and no maps, and that Ollama leaves empty members out, as well as
// those that only one of several replies of a type has.
export const ollamaTypes = {
  prelude: `import type * as Ollama from "ollama";
    type LeftOut = "done_reason" | "context" | \`\${string}_duration\` | \`\${string}_count\` | "license" | "system" | "messages"
      | "expires_at" | "size_vram" | "modified_at";
    type Sent<T> = T extends Date ? string : T extends Map<string, infer V> ? Record<string, V>
      : T extends (infer E)[] ? Sent<E>[] : T extends object
      ? { [K in keyof T as K extends LeftOut ? K : never]?: Sent<T[K]> } &
        { [K in keyof T as K extends LeftOut ? never : K]: Sent<T[K]> } : T;`,
  of: (path, data) => `Sent<Ollama.${data.error ? "ErrorResponse" : { "/api/chat": "ChatResponse",
    "/api/generate": "GenerateResponse", "/api/show": "ShowResponse" }[path] ?? "ListResponse"}>`,
  skipped: [],
  // Of the API, and not yet of the client.
  more: ["message.tool_calls.*.id", "message.tool_calls.*.function.index", "models.*.capabilities", "models.*.context_length",
    ...["details", "models.*.details"].flatMap((path) => [`${path}.context_length`, `${path}.embedding_length`])],
};

export class Wire {
  constructor(types) {
    this.types = types;
    this.replies = [];
  }

  fetch = async (url, init) => {
    const reply = await fetch(url, init);
    if (!reply.body) return reply;
    const kept = { path: new URL(url.url ?? url).pathname, kind: reply.headers.get("content-type") ?? "", text: "" };
    const [theirs, ours] = reply.body.tee();
    kept.end = read(ours, kept);
    this.replies.push(kept);
    return new Response(theirs, { status: reply.status, statusText: reply.statusText, headers: reply.headers });
  };

  // All that came is of the client's types, and at least so many different bodies and events came.
  async check(atLeast) {
    await Promise.all(this.replies.map((reply) => reply.end));
    const literals = new Set(this.replies.flatMap((reply) => this.literals(reply)));
    const faults = compile([this.types.prelude, ...literals].join("\n"));
    assert.equal(faults.length, 0, `${faults.length} of ${literals.size}:\n${faults.slice(0, 10).join("\n")}`);
    assert(literals.size >= atLeast, `${literals.size} bodies and events only`);
  }

  literals({ path, kind, text }) {
    return parts(kind, text).filter((part) => part && !this.types.skipped.includes(part)).map((part) => {
      const data = JSON.parse(part);
      for (const more of this.types.more) remove(data, more.split("."));
      return `((_: ${this.types.of(path, data)}) => {})(${JSON.stringify(data, same)});`;
    });
  }
}

// An aborted stream has the events that came whole.
async function read(stream, kept) {
  const decoder = new TextDecoder();
  try {
    for await (const bytes of stream) kept.text += decoder.decode(bytes, { stream: true });
  } catch {
    kept.text = kept.text.slice(0, kept.text.lastIndexOf("\n") + 1);
  }
}

function parts(kind, text) {
  if (kind.startsWith("application/x-ndjson")) return text.split("\n");
  if (!kind.startsWith("text/event-stream")) return [text];
  return text.split("\n\n").slice(0, -1).map((event) =>
    event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join(""));
}

// What no type tells apart is written alike, so that each kind of reply is compiled once.
const same = (key, value) => typeof value === "number" ? 1 : typeof value === "string" && value.length > 30 ? "a long text" : value;

function remove(data, [key, ...rest]) {
  if (data === null || typeof data !== "object") return;
  if (key === "*") for (const one of Object.values(data)) remove(one, rest);
  else if (rest.length > 0) remove(data[key], rest);
  else delete data[key];
}

// Messages, each with its line. The file is only in memory; packages are those beside this one.
function compile(text) {
  const name = `${process.cwd()}/wire.mts`;
  const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === name || fileExists.call(host, path);
  host.getSourceFile = (path, ...more) =>
    path === name ? ts.createSourceFile(name, text, options.target) : getSourceFile.call(host, path, ...more);
  const lines = text.split("\n");
  return ts.getPreEmitDiagnostics(ts.createProgram([name], options, host)).map(({ file, start, messageText }) => {
    const line = file?.fileName === name ? lines[file.getLineAndCharacterOfPosition(start).line].slice(0, 500) : file?.fileName;
    return `${ts.flattenDiagnosticMessageText(messageText, "\n")}\n  ${line}`;
  });
}
