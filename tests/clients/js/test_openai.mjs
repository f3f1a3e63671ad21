// The official openai client for JavaScript: chat completions, and text completions.   test_openai.mjs URL
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { CALL, PNG, TEXT, WEATHER_SCHEMA, caught, check, runAll } from "./checks.mjs";
import { Wire, openaiTypes } from "./strict.mjs";

const wire = new Wire(openaiTypes);
const client = new OpenAI({ fetch: wire.fetch, baseURL: process.argv[2] + "/v1", apiKey: "none", maxRetries: 0, timeout: 60_000 });
const tools = [{ type: "function", function: { name: "weather", description: "The weather.", parameters: WEATHER_SCHEMA } }];
const user = (content) => [{ role: "user", content }];
const ask = (content, fields = {}) =>
  client.chat.completions.create({ model: "any", messages: user(content), ...fields });

async function streamed(content, fields = {}) {
  const message = { content: "", reasoning: "", calls: [], finish: null, usage: null };
  const stream = await ask(content, { stream: true, stream_options: { include_usage: true }, ...fields });
  for await (const chunk of stream) {
    message.usage = chunk.usage ?? message.usage;
    for (const { delta, finish_reason } of chunk.choices) {
      message.content += delta.content ?? "";
      message.reasoning += delta.reasoning_content ?? "";
      message.finish = finish_reason ?? message.finish;
      for (const call of delta.tool_calls ?? []) {
        if (call.id) message.calls[call.index] = { name: call.function.name, arguments: "" };
        message.calls[call.index].arguments += call.function.arguments;
      }
    }
  }
  return message;
}

check(["text"], "text is the text", async () => {
  const answer = await ask(TEXT);
  assert.equal(answer.choices[0].message.content, TEXT);
  assert.match(answer._request_id, /^req_/);
});

check(["stream"], "a stream joins to the whole answer", async () => {
  assert.equal((await streamed(TEXT)).content, TEXT);
  const runner = client.chat.completions.stream({ model: "any", messages: user(TEXT) });
  assert.equal((await runner.finalMessage()).content, TEXT);
});

check(["tools"], "a call is typed by its schema", async () => {
  const [call] = (await ask(CALL("Oslo"), { tools })).choices[0].message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Oslo", days: 3 });
  const stream = await streamed(CALL("Oslo"), { tools });
  assert.equal(stream.finish, "tool_calls");
  assert.deepEqual(stream.calls, [{ name: "weather", arguments: call.function.arguments }]);
});

check(["tools"], "the runner calls the function and ends", async () => {
  const asked = [];
  const runner = client.chat.completions.runTools({
    model: "any",
    messages: user(CALL("Oslo")),
    tools: [{ type: "function", function: { name: "weather", description: "The weather.", parameters: WEATHER_SCHEMA,
      parse: JSON.parse, function: (given) => { asked.push(given); return "Rain."; } } }],
  });
  assert.equal(await runner.finalContent(), "Rain.");
  assert.deepEqual(asked, [{ city: "Oslo", days: 3 }]);
});

check(["parallel tools"], "two calls come as two", async () => {
  const text = "Both.\n" + CALL("Oslo") + "\n" + CALL("Rome");
  const { message } = (await ask(text, { tools })).choices[0];
  assert.deepEqual(message.tool_calls.map((call) => JSON.parse(call.function.arguments).city), ["Oslo", "Rome"]);
  assert.equal(new Set(message.tool_calls.map((call) => call.id)).size, 2);
  assert.equal((await streamed(text, { tools })).calls.length, 2);
  assert.equal((await ask(text, { tools, parallel_tool_calls: false })).choices[0].message.tool_calls.length, 1);
});

check(["reasoning"], "thoughts are beside the text, or left out", async () => {
  const text = "<think>\nHm.\n</think>\n\nYes.";
  const { message } = (await ask(text)).choices[0];
  assert.equal(message.reasoning_content, "Hm.");
  assert.equal(message.content, "Yes.");
  assert.equal((await streamed(text)).reasoning, "Hm.");
  assert.equal((await streamed(text, { reasoning_effort: "none" })).reasoning, "");
});

check(["structured output"], "a schema's value is parsed", async () => {
  const format = zodResponseFormat(z.object({ city: z.string(), days: z.number().int() }), "answer");
  const answer = await client.chat.completions.parse({ model: "any", messages: user('{"city":"Oslo","days":3}'),
    response_format: format });
  assert.deepEqual(answer.choices[0].message.parsed, { city: "Oslo", days: 3 });
});

check(["images refused"], "images are refused by name", async () => {
  const image = { type: "image_url", image_url: { url: "data:image/png;base64," + PNG } };
  const error = await caught(() => ask([{ type: "text", text: "What?" }, image]));
  assert(error instanceof OpenAI.BadRequestError);
  assert.match(error.message, /vision tower/);
  assert.equal(error.code, "unsupported_content");
});

check(["errors"], "errors have their types, codes and fields", async () => {
  const wrong = await caught(() => ask("x", { temperature: "hot" }));
  assert(wrong instanceof OpenAI.BadRequestError);
  assert.deepEqual([wrong.code, wrong.param, wrong.type], ["invalid_type", "temperature", "invalid_request_error"]);
  const long = await caught(() => ask("x".repeat(1_100_000), { stream: true }));
  assert.equal(long.code, "context_length_exceeded");
  const none = await caught(() => client.embeddings.create({ model: "any", input: "x" }));
  assert.equal(none.status, 501);
  assert.equal((await caught(() => client.post("/nowhere", { body: {} }))).status, 404);
});

check(["usage"], "tokens are counted", async () => {
  const whole = (await ask("abcdefghij")).usage;
  assert.equal(whole.completion_tokens, 2);
  assert.equal(whole.total_tokens, whole.prompt_tokens + 2);
  const { usage } = await streamed("abcdefghij");
  assert.equal(usage.completion_tokens, 2);
  assert(usage.prompt_tokens_details.cached_tokens > 0);
});

check(["abort"], "an aborted stream ends, and the next request is served", async () => {
  const stream = await ask("x".repeat(200_000), { stream: true });
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) stream.controller.abort();
  }
  const cut = new AbortController();
  const whole = client.chat.completions.create({ model: "any", messages: user("x".repeat(500_000)) }, { signal: cut.signal });
  cut.abort();
  assert((await caught(() => whole)) instanceof OpenAI.APIUserAbortError);
  assert.equal((await ask("next")).choices[0].message.content, "next");
});

check([], "several choices", async () => {
  const answer = await ask("x", { n: 3 });
  assert.deepEqual(answer.choices.map((choice) => [choice.index, choice.message.content]), [[0, "x"], [1, "x"], [2, "x"]]);
});

check([], "text completions", async () => {
  const answer = await client.completions.create({ model: "any", prompt: ["<turn>user:one<turn>assistant:", "<turn>user:two"],
    max_tokens: 10 });
  assert.deepEqual(answer.choices.map((choice) => choice.text), ["one", "two"]);
  let text = "";
  for await (const chunk of await client.completions.create({ model: "any", prompt: "<turn>user:abcdefg", max_tokens: 10,
    stream: true })) text += chunk.choices[0].text;
  assert.equal(text, "abcdefg");
});

check([], "models are listed", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ["echo"]);
});

check([], "every body and event is of the client's types", () => wire.check(40));

await runAll("openai (JavaScript)", ["openai"]);
