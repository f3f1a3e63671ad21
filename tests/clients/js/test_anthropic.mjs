// The official Anthropic client for JavaScript.   test_anthropic.mjs URL
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { CALL, PNG, TEXT, WEATHER_SCHEMA, caught, check, runAll } from "./checks.mjs";
import { Wire, anthropicTypes } from "./strict.mjs";

const wire = new Wire(anthropicTypes);
const client = new Anthropic({ fetch: wire.fetch, baseURL: process.argv[2], apiKey: "none", maxRetries: 0, timeout: 60_000 });
const tools = [{ name: "weather", description: "The weather.", input_schema: WEATHER_SCHEMA }];
const thinking = { type: "enabled", budget_tokens: 1024 };
const body = (content, fields) => ({ model: "any", max_tokens: 2000, messages: [{ role: "user", content }], ...fields });
const ask = (content, fields = {}) => client.messages.create(body(content, fields));
const streamed = (content, fields = {}) => client.messages.stream(body(content, fields)).finalMessage();
const withoutIds = (message) => message.content.map(({ id, ...block }) => block);

// The same whole and streamed.
async function both(content, fields = {}) {
  const [whole, joined] = [await ask(content, fields), await streamed(content, fields)];
  assert.deepEqual(withoutIds(joined), withoutIds(whole));
  assert.equal(joined.stop_reason, whole.stop_reason);
  return whole;
}

check(["text", "stream"], "text is the text, streamed as well", async () => {
  const answer = await both(TEXT);
  assert.equal(answer.content[0].text, TEXT);
  assert.equal(answer.stop_reason, "end_turn");
  assert.match(answer._request_id, /^req_/);
});

check(["tools"], "a call is typed by its schema", async () => {
  const answer = await both(CALL("Oslo"), { tools });
  assert.equal(answer.stop_reason, "tool_use");
  assert.deepEqual(answer.content[0].input, { city: "Oslo", days: 3 });
  const results = [{ type: "tool_result", tool_use_id: answer.content[0].id, content: [{ type: "text", text: "Rain." }] }];
  const second = await client.messages.create({ model: "any", max_tokens: 100, tools, messages: [
    { role: "user", content: "go" }, { role: "assistant", content: answer.content }, { role: "user", content: results }] });
  assert.equal(second.content[0].text, "Rain.");
});

check(["parallel tools"], "two calls come as two", async () => {
  const text = "Both.\n" + CALL("Oslo") + "\n" + CALL("Rome");
  const answer = await both(text, { tools });
  assert.deepEqual(answer.content.map((block) => block.type), ["text", "tool_use", "tool_use"]);
  const single = await both(text, { tools, tool_choice: { type: "auto", disable_parallel_tool_use: true } });
  assert.equal(single.content.length, 2);
});

check(["reasoning"], "thoughts are blocks, or left out", async () => {
  const answer = await both("<think>Hm.</think>Yes.", { thinking });
  assert.deepEqual(answer.content.map((block) => block.type), ["thinking", "text"]);
  assert.equal(answer.content[0].thinking, "Hm.");
  assert(answer.content[0].signature);
  assert.equal((await both("<think>Hm.</think>Yes.")).content.length, 1);
});

check(["structured output"], "a schema is taken", async () => {
  const format = { type: "json_schema", schema: { type: "object", properties: { city: { type: "string" } },
    required: ["city"], additionalProperties: false } };
  const answer = await both('{"city":"Oslo"}', { output_config: { format } });
  assert.deepEqual(JSON.parse(answer.content[0].text), { city: "Oslo" });
  const bad = { type: "json_schema", schema: { $ref: "#/nowhere" } };
  assert.match((await caught(() => ask("x", { output_config: { format: bad } }))).message, /output_config.format/);
});

check(["images refused"], "images are refused by name", async () => {
  const error = await caught(() => ask([{ type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }]));
  assert(error instanceof Anthropic.BadRequestError);
  assert.match(error.message, /vision tower/);
});

check(["errors"], "errors have their types and say the path", async () => {
  const wrong = await caught(() => ask("x", { temperature: "hot" }));
  assert(wrong instanceof Anthropic.BadRequestError);
  assert.equal(wrong.error.error.type, "invalid_request_error");
  assert.match(wrong.error.error.message, /^temperature: /);
  assert.match((await caught(() => ask("x".repeat(1_100_000)))).message, /prompt is too long: \d+ tokens > \d+ maximum/);
  assert((await caught(() => client.post("/v1/messages/nowhere", { body: {} }))) instanceof Anthropic.NotFoundError);
});

check(["usage"], "tokens are counted, before and with the answer", async () => {
  const answer = await both("abcdefghij", { tools });
  assert.equal(answer.usage.output_tokens, 2);
  const { input_tokens } = await client.messages.countTokens({ model: "any", tools,
    messages: [{ role: "user", content: "abcdefghij" }] });
  assert.equal(answer.usage.input_tokens + answer.usage.cache_read_input_tokens, input_tokens);
});

check(["abort"], "an aborted stream ends, and the next request is served", async () => {
  const stream = client.messages.stream(body("x".repeat(200_000), {}));
  stream.once("text", () => stream.abort());
  assert((await caught(() => stream.finalMessage())) instanceof Anthropic.APIUserAbortError);
  assert.equal((await ask("next")).content[0].text, "next");
});

check([], "every body and event is of the client's types", () => wire.check(40));

await runAll("@anthropic-ai/sdk", ["@anthropic-ai/sdk"]);
