// The AI SDK by its provider for servers of OpenAI's kind; what opencode is built on.   test_ai_sdk.mjs URL
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { CALL, PNG, TEXT, caught, check, runAll } from "./checks.mjs";

const provider = createOpenAICompatible({ name: "tempo9", baseURL: process.argv[2] + "/v1", includeUsage: true,
  supportsStructuredOutputs: true });
const model = provider("any");
const options = { model, maxRetries: 0 };
const asked = [];
const weather = tool({
  description: "The weather.",
  inputSchema: z.object({ city: z.string(), days: z.number().int() }),
  execute: async (input) => { asked.push(input); return `Rain in ${input.city}.`; },
});

async function streamed(prompt, fields = {}) {
  const result = streamText({ ...options, prompt, onError: () => {}, ...fields });
  const parts = [];
  for await (const part of result.fullStream) parts.push(part);
  const error = parts.find((part) => part.type === "error");
  if (error) throw error.error;
  return result;
}

check(["text", "stream"], "text is the text, streamed as well", async () => {
  assert.equal((await generateText({ ...options, prompt: TEXT })).text, TEXT);
  assert.equal(await (await streamed(TEXT)).text, TEXT);
});

check(["tools"], "a tool loop goes round", async () => {
  asked.length = 0;
  const prompt = CALL("Oslo");
  const whole = await generateText({ ...options, prompt, tools: { weather }, stopWhen: stepCountIs(3) });
  assert.match(whole.text, /Rain in Oslo/);
  const stream = await streamed(prompt, { tools: { weather }, stopWhen: stepCountIs(3) });
  assert.match(await stream.text, /Rain in Oslo/);
  assert.deepEqual(asked, [{ city: "Oslo", days: 3 }, { city: "Oslo", days: 3 }]);
});

check(["parallel tools"], "two calls come as two", async () => {
  const prompt = CALL("Oslo") + "\n" + CALL("Rome");
  for (const calls of [(await generateText({ ...options, prompt, tools: { weather } })).toolCalls,
    await (await streamed(prompt, { tools: { weather } })).toolCalls]) {
    assert.deepEqual(calls.map((call) => call.input.city), ["Oslo", "Rome"]);
  }
});

check(["reasoning"], "thoughts are beside the text", async () => {
  const prompt = "<think>Hm.</think>Yes.";
  assert.equal((await generateText({ ...options, prompt })).reasoningText, "Hm.");
  const stream = await streamed(prompt);
  assert.equal(await stream.reasoningText, "Hm.");
  assert.equal(await stream.text, "Yes.");
});

check(["structured output"], "an object by its schema", async () => {
  const output = Output.object({ schema: z.object({ city: z.string() }) });
  const result = await generateText({ ...options, prompt: '{"city":"Oslo"}', output });
  assert.deepEqual(result.output, { city: "Oslo" });
});

check(["images refused"], "images are refused by name", async () => {
  const messages = [{ role: "user", content: [{ type: "text", text: "What?" }, { type: "image", image: Buffer.from(PNG, "base64") }] }];
  const error = await caught(() => generateText({ ...options, messages }));
  assert.equal(error.statusCode, 400);
  assert.match(error.message, /vision tower/);
});

check(["errors"], "errors say what is wrong, streamed as well", async () => {
  const whole = await caught(() => generateText({ ...options, prompt: "x".repeat(1_100_000) }));
  assert.match(whole.message, /maximum context length/);
  assert.equal(JSON.parse(whole.responseBody).error.code, "context_length_exceeded");
  const stream = await caught(() => streamed("x".repeat(1_100_000)));
  assert.match(stream.message, /maximum context length/);
});

check(["usage"], "tokens are counted", async () => {
  for (const usage of [(await generateText({ ...options, prompt: "abcdefghij" })).usage,
    await (await streamed("abcdefghij")).usage]) {
    assert.equal(usage.outputTokens, 2);
    assert(usage.inputTokens > 10);
  }
});

check(["abort"], "an aborted stream ends, and the next request is served", async () => {
  const cut = new AbortController();
  const result = streamText({ ...options, prompt: "x".repeat(200_000), abortSignal: cut.signal, onError: () => {} });
  let isAborted = false;
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") cut.abort();
    isAborted ||= part.type === "abort";
  }
  assert(isAborted);
  assert.equal((await generateText({ ...options, prompt: "next" })).text, "next");
});

await runAll("ai (AI SDK)", ["ai", "@ai-sdk/openai-compatible"]);
