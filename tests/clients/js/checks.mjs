// A list of checks, run one after the other against a server that answers with the last message's text
// (tests/server/echo_server). Each says which features of the client it proves.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

export const FEATURES = ["text", "stream", "tools", "parallel tools", "reasoning", "structured output",
  "images refused", "errors", "usage", "abort"];

export const CALL = (city) => `<tool_call>\n{"name": "weather", "arguments": {"city": "${city}", "days": "3"}}\n</tool_call>`;
export const WEATHER_SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};
export const TEXT = "Grüße 😀 \"quoted\" \\ \t";
export const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const checks = [];
export function check(features, name, run) {
  for (const feature of features) assert(FEATURES.includes(feature), feature);
  checks.push({ features, name, run });
}

// The error that `call` throws, as `read` sees it.
export async function caught(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

// Runs the checks; prints each, the count, and a line for the matrix. `packages`: those that are proven.
export async function runAll(client, packages, ...given) {
  const failed = new Set();
  let failures = 0;
  for (const { features, name, run } of checks) {
    const started = Date.now();
    let verdict = "ok";
    try {
      await run(...given);
    } catch (error) {
      verdict = "FAILED";
      ++failures;
      for (const feature of features) failed.add(feature);
      console.log(error.stack ?? error);
    }
    console.log(`${verdict.padEnd(6)} ${((Date.now() - started) / 1000).toFixed(1).padStart(6)} s  ${name}`);
  }
  console.log(`${checks.length - failures} passed, ${failures} failed`);
  const proven = new Set(checks.flatMap((one) => one.features));
  const versions = packages.map((name) =>
    `${name} ${JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version}`);
  const verdicts = FEATURES.map((feature) => (failed.has(feature) ? "FAIL" : proven.has(feature) ? "pass" : "-"));
  console.log(["matrix", client, versions.join(", "), ...verdicts].join("\t"));
  process.exitCode = failures > 0 ? 1 : 0;
}
