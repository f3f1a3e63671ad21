#!/usr/bin/env python3
"""Writes prompts.jsonl: what `tempo9 bench spec --prompts` asks, six workloads in the forms that coding agents use.

The words are plain on purpose, so that the small trained model of the reference data can do most of it. In "read" nearly
all is prompt: what guessing costs where it can gain nothing.
"""
import json
import pathlib

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Get the weather of a city.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "name of the city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer"}}, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "create_order", "description": "Create an order.",
        "parameters": {"type": "object", "properties": {
            "order_id": {"type": "string"}, "quantity": {"type": "integer"},
            "express": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["order_id", "quantity"]}}},
]

CODE = {
    "total": """def total(items, rate):
    amount = 0
    for item in items:
        amount = amount + item.price * item.count
    amount = amount * (1 + rate)
    return amount""",
    "queue": """class Queue:
    def __init__(self, limit):
        self.limit = limit
        self.entries = []

    def push(self, entry):
        if len(self.entries) >= self.limit:
            raise ValueError("the queue is full")
        self.entries.append(entry)

    def pop(self):
        if not self.entries:
            return None
        return self.entries.pop(0)

    def size(self):
        return len(self.entries)""",
    "config": """import json
import os


def read_config(path):
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        values = json.load(file)
    for name, value in os.environ.items():
        if name.startswith("APP_"):
            values[name[4:].lower()] = value
    return values


def write_config(path, values):
    with open(path, "w") as file:
        json.dump(values, file, indent=2)""",
}

EDITS = [("total", "Rename amount to subtotal."), ("queue", "Rename entries to values."),
         ("queue", "Change the message to \"no room\"."), ("config", "Rename values to settings.")]
CALLS = ["Please get the weather with city Leipzig, unit celsius and days 3.",
         "Create an order: order id 0045871, quantity 12, with express, tags river, stone and bridge.",
         "Get the weather, city Paris. Do the same again but city Rome.",
         "Create an order with order id A-100 and quantity 3."]
CODE_STARTS = ["def read_lines(path):\n    \"\"\"Gives the lines of a file without their ends.\"\"\"\n",
               "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
               "import argparse\n\n\ndef main():\n    parser = argparse.ArgumentParser(description=\"Counts words\")\n"]
CHATS = ["What is the capital of France?", "Repeat this line: The quick brown fox jumps over 13 lazy dogs.",
         "What comes after Tuesday?", "Hello"]
PROSE_STARTS = ["The kernel keeps a list of all the processes, and each process has",
                "This document describes how the package is built and installed. The first step is",
                "When a connection is closed by the other side, the server"]
READS = ["How many functions are there? Answer with a number.", "Which class has a method push? Answer with its name."]


def edit(name, task):
    return [{"role": "user", "content": f"{task}\n\n```python\n{CODE[name]}\n```"}]


def files():
    """Some 1500 tokens of code."""
    parts = [code.replace("entries", f"entries{i}").replace("values", f"values{i}") for i in range(3) for code in CODE.values()]
    return "\n\n".join(f"```python\n{part}\n```" for part in parts)


def lines():
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    for name, task in EDITS:
        yield {"workload": "edit", "messages": edit(name, task), **off}
    for text in CALLS:
        yield {"workload": "tool call", "messages": [{"role": "user", "content": text}], "tools": TOOLS, **off}
    for text in CODE_STARTS:
        yield {"workload": "code", "prompt": text}
    for text in CHATS:
        yield {"workload": "chat", "messages": [{"role": "user", "content": text}], **off}
    for text in PROSE_STARTS:
        yield {"workload": "prose", "prompt": text}
    for text in READS:
        yield {"workload": "read", "messages": [{"role": "user", "content": f"{files()}\n\n{text}"}], "max_tokens": 8, **off}


path = pathlib.Path(__file__).with_name("prompts.jsonl")
path.write_text("".join(json.dumps(line) + "\n" for line in lines()))
