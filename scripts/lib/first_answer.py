"""Asks a running server one question, prints the answer as it streams, its speed, and the curl line to try next."""
import json
import sys
import time
import urllib.request

PROMPT = "Explain in two sentences why the sky is blue."


def main():
    url = sys.argv[1] + "/v1/chat/completions"
    body = {"messages": [{"role": "user", "content": PROMPT}], "stream": True, "temperature": 0,
            "max_tokens": 128, "stream_options": {"include_usage": True}}
    print(f"> {PROMPT}\n")
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    started = time.monotonic()
    first = last = None
    usage = {}
    with urllib.request.urlopen(request) as reply:
        for line in reply:
            data = line.decode().strip().removeprefix("data: ")
            if not data.startswith("{"):
                continue
            chunk = json.loads(data)
            if "error" in chunk:
                raise SystemExit(f"\nthe server reports: {chunk['error']['message']}")
            usage = chunk.get("usage") or usage
            text = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
            if text:
                last = time.monotonic()
                first = first or last
                print(text, end="", flush=True)
    tokens = usage.get("completion_tokens", 0)
    print("\n")
    if first is None:
        raise SystemExit("the answer was empty")
    speed = (tokens - 1) / (last - first) if tokens > 1 and last > first else 0.0
    print(f"{tokens} tokens, {speed:.1f} tokens per second, first one after {1000 * (first - started):.0f} ms")
    print(f"""
Try it yourself:

  curl -N {url} -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'
""")


if __name__ == "__main__":
    main()
