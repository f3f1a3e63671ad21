// The official ollama client for JavaScript.   test_ollama.mjs URL
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import { CALL, PNG, TEXT, WEATHER_SCHEMA, caught, check, runAll } from "./checks.mjs";
import { Wire, ollamaTypes } from "./strict.mjs";

const wire = new Wire(ollamaTypes);
const client = new Ollama({ fetch: wire.fetch, host: process.argv[2] });
const tools = [{ type: "function", function: { name: "weather", description: "The weather.", parameters: WEATHER_SCHEMA } }];
const body = (content, fields) => ({ model: "any", messages: [{ role: "user", content }], ...fields });
const ask = (content, fields = {}) => client.chat(body(content, fields));

async function streamed(content, fields = {}) {
  const joined = { content: "", thinking: "", tool_calls: [], last: null };
  for await (const part of await client.chat({ ...body(content, fields), stream: true })) {
    joined.content += part.message.content;
    joined.thinking += part.message.thinking ?? "";
    joined.tool_calls.push(...(part.message.tool_calls ?? []));
    joined.last = part;
  }
  assert(joined.last.done);
  return joined;
}

check(["text", "stream"], "text is the text, streamed as well", async () => {
  assert.equal((await ask(TEXT)).message.content, TEXT);
  assert.equal((await streamed(TEXT)).content, TEXT);
});

check(["tools", "parallel tools"], "arguments are objects, two calls come as two", async () => {
  const text = CALL("Oslo") + "\n" + CALL("Rome");
  for (const { tool_calls } of [(await ask(text, { tools })).message, await streamed(text, { tools })]) {
    assert.deepEqual(tool_calls.map((call) => call.function.arguments), [{ city: "Oslo", days: 3 }, { city: "Rome", days: 3 }]);
  }
  const messages = [{ role: "user", content: "go" }, { role: "assistant", content: "", tool_calls: [
    { function: { name: "weather", arguments: { city: "Oslo" } } }] }, { role: "tool", tool_name: "weather", content: "Rain." }];
  assert.equal((await client.chat({ model: "any", messages, tools })).message.content, "Rain.");
});

check(["reasoning"], "thoughts are beside the text, or left out", async () => {
  const text = "<think>Hm.</think>Yes.";
  assert.equal((await ask(text, { think: true })).message.thinking, "Hm.");
  assert.equal((await streamed(text, { think: "high" })).thinking, "Hm.");
  assert.equal((await ask(text, { think: false })).message.thinking, undefined);
});

check(["structured output"], "a format is taken", async () => {
  const format = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  assert.deepEqual(JSON.parse((await ask('{"city":"Oslo"}', { format })).message.content), { city: "Oslo" });
  assert.equal((await streamed('{"a":1}', { format: "json" })).content, '{"a":1}');
});

check(["images refused"], "images are refused by name", async () => {
  const error = await caught(() => client.chat({ model: "any", messages: [{ role: "user", content: "?", images: [PNG] }] }));
  assert.equal(error.status_code, 400);
  assert.match(error.message, /vision tower/);
});

check(["errors"], "errors are texts", async () => {
  const wrong = await caught(() => ask("x", { options: { top_k: "many" } }));
  assert.equal(wrong.message, 'option "top_k" must be of type integer');
  assert.match((await caught(() => ask("x".repeat(1_100_000)))).message, /prompt too long; exceeded max context length by/);
  assert.equal((await caught(() => client.embed({ model: "any", input: "x" }))).status_code, 501);
});

check(["usage"], "counts and durations", async () => {
  const answer = await ask("abcdefghij");
  assert.equal(answer.eval_count, 2);
  assert(Number.isInteger(answer.total_duration) && answer.prompt_eval_count > 10);
  assert.equal((await streamed("abcdefghij")).last.eval_count, 2);
});

check(["abort"], "an aborted stream ends, and the next request is served", async () => {
  const error = await caught(async () => {
    const stream = await client.chat({ ...body("x".repeat(200_000), {}), stream: true });
    for await (const part of stream) if (part.message.content) stream.abort();
  });
  assert.equal(error.name, "AbortError");
  assert.equal((await ask("next")).message.content, "next");
});

check([], "generate, list, show, ps", async () => {
  assert.equal((await client.generate({ model: "any", prompt: "Hello" })).response, "Hello");
  assert.equal((await client.generate({ model: "any", prompt: "" })).done_reason, "load");
  assert.equal((await client.list()).models[0].name, "echo");
  assert.equal((await client.show({ model: "echo" })).model_info["general.architecture"], "llama");
  assert.equal((await client.ps()).models.length, 1);
});

check([], "every body and event is of the client's types", () => wire.check(20));

await runAll("ollama (JavaScript)", ["ollama"]);
