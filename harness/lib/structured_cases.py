"""Schemas and tools for structured_output.py: features of JSON Schema one by one, and parameters as MCP servers declare
them."""

TEXT = {"type": "string"}
SHORT = {"type": "string", "maxLength": 24}
INTEGER = {"type": "integer"}


def closed(required=None, defs=None, **properties):
    schema = {"type": "object", "properties": properties,
              "required": list(properties) if required is None else required, "additionalProperties": False}
    return {**schema, "$defs": defs} if defs else schema


def open_object(required, **properties):
    return {"type": "object", "properties": properties, "required": required}


def array(items, **limits):
    return {"type": "array", "items": items, **limits}


NODE = closed(["value"], value={"type": "integer", "minimum": 0, "maximum": 99},
              next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})

# By keyword. The root is an object, as strict clients ask for, but for the last few.
FEATURES = {
    "string": closed(name=TEXT),
    "string-limits": closed(name={"type": "string", "minLength": 3, "maxLength": 12}),
    "string-long-limit": closed(note={"type": "string", "maxLength": 2000}),
    "string-exact": closed(code={"type": "string", "minLength": 6, "maxLength": 6}),
    "pattern-anchored": closed(code={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}),
    "pattern-choice": closed(size={"type": "string", "pattern": "^(small|medium|large)( plus)?$"}),
    "pattern-contains": closed(word={"type": "string", "pattern": "\\S", "maxLength": 30}),
    "pattern-begin": closed(path={"type": "string", "pattern": "^/[a-z]+", "maxLength": 30}),
    "pattern-end": closed(file={"type": "string", "pattern": "\\.py$", "maxLength": 30}),
    "format-date": closed(day={"type": "string", "format": "date"}),
    "format-time": closed(at={"type": "string", "format": "time"}),
    "format-date-time": closed(at={"type": "string", "format": "date-time"}),
    "format-uuid": closed(id={"type": "string", "format": "uuid"}),
    "integer": closed(n=INTEGER),
    "integer-range": closed(n={"type": "integer", "minimum": -5, "maximum": 12}),
    "integer-exclusive": closed(n={"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 20}),
    "integer-minimum": closed(n={"type": "integer", "minimum": 1000}),
    "integer-negative": closed(n={"type": "integer", "maximum": -1}),
    "number": closed(x={"type": "number"}),
    "boolean": closed(on={"type": "boolean"}),
    "null": closed(nothing={"type": "null"}),
    "type-list": closed(value={"type": ["string", "integer", "null"], "maxLength": 20}),
    "enum-strings": closed(level={"enum": ["debug", "info", "warning", "error"]}),
    "enum-mixed": closed(value={"enum": ["auto", 1, 2.5, True, None, {"kind": "x"}, [1, 2]]}),
    "enum-escapes": closed(value={"enum": ["a\"b", "c\\d", "é", "line\nend", "</tool_call>"]}),
    "enum-large": closed(city={"enum": [f"city_{i:03}" for i in range(400)]}),
    "const": closed(kind={"const": "reading"}, value={"type": "number"}),
    "array": closed(tags=array(SHORT, maxItems=5)),
    "array-limits": closed(tags=array(INTEGER, minItems=2, maxItems=4)),
    "array-of-arrays": closed(rows=array(array({"type": "integer", "minimum": 0, "maximum": 9}, maxItems=3),
                                         minItems=1, maxItems=3)),
    "array-of-objects": closed(items=array(closed(name=SHORT, n={"type": "integer", "minimum": 0, "maximum": 999}),
                                           minItems=1, maxItems=3)),
    "prefix-items": closed(point={"type": "array", "prefixItems": [INTEGER, INTEGER], "items": False, "minItems": 2}),
    "prefix-and-rest": closed(row={"type": "array", "prefixItems": [SHORT], "items": {"type": "boolean"}, "maxItems": 4}),
    "optional-properties": closed(["a"], a=SHORT, b=SHORT, c={"type": "boolean"}),
    "forty-optional": closed([], **{f"flag_{i}": {"type": "boolean"} for i in range(40)}),
    "all-optional": closed([], a={"type": "boolean"}, b={"type": "null"}),
    "nested": closed(address=closed(street=SHORT, place=closed(city=SHORT, code={"type": "string", "pattern": "^[0-9]{5}$"}))),
    "additional-typed": {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 999}},
                         "required": ["id"], "additionalProperties": {"type": "boolean"}},
    "open-object": open_object(["a"], a={"type": "boolean"}),
    "unicode-names": closed(**{"größe": {"type": "integer", "minimum": 1, "maximum": 300}, "名前": SHORT}),
    "any-of": closed(value={"anyOf": [{"type": "number"}, {"type": "null"}, SHORT]}),
    "any-of-objects": closed(shape={"anyOf": [closed(kind={"const": "circle"}, radius={"type": "number"}),
                                              closed(kind={"const": "square"}, side={"type": "number"})]}),
    "one-of": closed(event={"oneOf": [closed(type={"const": "open"}), closed(type={"const": "close"}, code=INTEGER)]}),
    "all-of": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
                         {"properties": {"a": {"maximum": 5}, "b": {"type": "boolean"}}, "required": ["b"]}],
               "unevaluatedProperties": True},
    "any-of-required": {**closed([], a={"type": "boolean"}, b={"type": "boolean"}),
                        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "ref": closed(defs={"point": closed(x=INTEGER, y=INTEGER)}, start={"$ref": "#/$defs/point"}, end={"$ref": "#/$defs/point"}),
    "ref-siblings": closed(defs={"name": TEXT}, name={"$ref": "#/$defs/name", "maxLength": 8}),
    "ref-definitions": {**closed(a={"$ref": "#/definitions/flag"}), "definitions": {"flag": {"type": "boolean"}}},
    "recursive-list": {**closed(head={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
    "recursive-tree": {**closed(root={"$ref": "#/$defs/tree"}),
                       "$defs": {"tree": closed(["label"], label=SHORT,
                                                leaves=array({"$ref": "#/$defs/tree"}, maxItems=2))}},
    "recursive-mutual": {**closed(a={"$ref": "#/$defs/a"}),
                         "$defs": {"a": closed(["n"], n={"type": "boolean"}, b={"$ref": "#/$defs/b"}),
                                   "b": closed(["m"], m={"type": "boolean"}, a={"$ref": "#/$defs/a"})}},
    "many-properties": closed(**{f"field_{i}": {"type": "integer", "minimum": 0, "maximum": 9} for i in range(20)}),
    "annotations": {**closed(a={"type": "boolean", "title": "A", "default": True, "examples": [False]}),
                    "title": "Annotated", "description": "Says nothing.", "$schema": "https://json-schema.org/draft/2020-12/schema"},
    "root-array": array(SHORT, minItems=1, maxItems=3),
    "root-enum": {"enum": ["yes", "no"]},
    "root-integer": {"type": "integer", "minimum": 1, "maximum": 10},
}


def tool(name, description, parameters, strict=False):
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": {**function, "strict": True} if strict else function}


# As servers of the Model Context Protocol have them, in their manner: long limits, defaults, nested lists, references.
TOOLS = [
    tool("read_text_file", "Read a file as text.",
         open_object(["path"], path=TEXT, head={"type": "integer", "minimum": 1}, tail={"type": "integer", "minimum": 1})),
    tool("write_file", "Create a file or replace its content.",
         open_object(["path", "content"], path={"type": "string", "maxLength": 4096},
                     content={"type": "string", "maxLength": 10000})),
    tool("edit_file", "Replace pieces of a file.",
         open_object(["path", "edits"], path=TEXT, dryRun={"type": "boolean", "default": False},
                     edits=array(closed(oldText=SHORT, newText=SHORT), minItems=1, maxItems=3))),
    tool("search_files", "Find files by a pattern.",
         closed(["path", "pattern"], path=SHORT, pattern=SHORT, excludePatterns=array(SHORT, maxItems=3))),
    tool("git_commit", "Record changes.", closed(repo_path=SHORT, message={"type": "string", "minLength": 1, "maxLength": 80})),
    tool("git_log", "List commits.",
         open_object(["repo_path"], repo_path=SHORT, max_count={"type": "integer", "default": 10, "minimum": 1, "maximum": 100},
                     start_timestamp={"anyOf": [SHORT, {"type": "null"}], "default": None})),
    tool("create_issue", "Open an issue.",
         open_object(["owner", "repo", "title"], owner=SHORT, repo=SHORT, title={"type": "string", "maxLength": 256},
                     body={"type": "string", "maxLength": 2000}, labels=array(SHORT, maxItems=3),
                     milestone={"type": ["integer", "null"]})),
    tool("list_pull_requests", "List pull requests.",
         closed(["owner", "repo"], owner=SHORT, repo=SHORT, state={"type": "string", "enum": ["open", "closed", "all"]},
                sort={"type": "string", "enum": ["created", "updated", "popularity"]},
                per_page={"type": "integer", "minimum": 1, "maximum": 100})),
    tool("fetch", "Fetch a page.",
         closed(["url"], url={"type": "string", "pattern": "^https?://\\S+$", "maxLength": 60},
                max_length={"type": "integer", "default": 5000, "exclusiveMinimum": 0, "exclusiveMaximum": 1000000},
                raw={"type": "boolean", "default": False})),
    tool("browser_click", "Click on an element.",
         closed(["element", "ref"], element=SHORT, ref={"type": "string", "pattern": "^e[0-9]+$"}, doubleClick={"type": "boolean"},
                button={"type": "string", "enum": ["left", "right", "middle"]},
                modifiers=array({"enum": ["Alt", "Control", "Meta", "Shift"]}, maxItems=2))),
    tool("query", "Run a read-only statement.", closed(sql={"type": "string", "minLength": 1, "maxLength": 2000})),
    tool("post_message", "Write to a channel.",
         closed(["channel_id", "text"], channel_id={"type": "string", "pattern": "^C[A-Z0-9]{8}$"}, text=SHORT,
                thread_ts={"type": ["string", "null"]})),
    tool("create_entities", "Add to the graph.",
         {**closed(entities=array({"$ref": "#/$defs/entity"}, minItems=1, maxItems=2)),
          "$defs": {"entity": closed(name=SHORT, entityType=SHORT, observations=array(SHORT, maxItems=2))}}),
    tool("book_flight", "Book a flight.",
         closed(["from", "to", "date"], **{"from": {"type": "string", "pattern": "^[A-Z]{3}$"},
                                           "to": {"type": "string", "pattern": "^[A-Z]{3}$"},
                                           "date": {"type": "string", "format": "date"},
                                           "class": {"enum": ["economy", "business"]},
                                           "passengers": array(closed(name=SHORT, age={"type": "integer", "minimum": 0, "maximum": 120}),
                                                               minItems=1, maxItems=2)})),
    tool("set_thermostat", "Set a temperature.",
         closed(["degrees"], degrees={"type": "number"}, unit={"enum": ["C", "F"]}, until={"type": "string", "format": "date-time"})),
    tool("tree", "Anything that nests.", {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}},
                                          "required": ["root"], "$defs": {"node": NODE}}),
]

PROMPTS = [
    "Give an example.",
    "Describe the last thing that you saw.",
    "The door to the lab was open at 14:30 on 5 May 2024; Ada noted it.",
    "Write a file about rivers, please.",
    "Wie ist das Wetter in Köln, und was kostet ein Kaffee dort?",
    "What is 17 + 25?",
    "List three animals and how many legs they have.",
    "Fix the typo in README.md: change teh to the.",
]
