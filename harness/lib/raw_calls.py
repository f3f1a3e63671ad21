"""Calls in a model's raw text, read without the server's parser: to tell a fault of the model from one of the server."""
import ast
import collections
import json
import re

# What a text must look like to be a value of a type that a checker asks for.
CONVERTIBLE = {"int": r"[+-]?\d+", "integer": r"[+-]?\d+", "float": r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?",
               "number": r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?",
               "string": r"[^\[{].*", "bool": r"(?i:true|false)", "boolean": r"(?i:true|false)", "list": r"\s*\[.*\]\s*", "tuple": r"\s*\[.*\]\s*",
               "array": r"\s*\[.*\]\s*", "dict": r"\s*\{.*\}\s*", "object": r"\s*\{.*\}\s*"}


def is_convertible(text, kind):
    return re.fullmatch(CONVERTIBLE.get(kind.lower(), r"(?!)"), text.strip(), re.DOTALL) is not None


def json_objects(text):
    """Every JSON object in the text that is not inside another one."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            if isinstance(value, dict):
                yield value
        at = text.find("{", end)


def xml_functions(raw):
    """[(names of the parameters whose tags are whole, beginnings of tags that are not)] of each whole function."""
    found = []
    for body in re.findall(r"<function=[^>\n<]+>(.*?)</function>", raw, re.DOTALL):
        names = {name.strip().strip("\"'") for name in re.findall(r"<parameter=([^>\n<]+)>", body)}
        found.append((names, re.findall(r"<parameter[^>\n<]*(?=[\n<]|$)", body)))
    return found


def values_of(raw):
    """{parameter: [what the raw text has for it]}: texts as they stand in XML, JSON values as they are."""
    values = collections.defaultdict(list)
    for name, text in re.findall(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", raw, re.DOTALL):
        values[name.strip()].append(text)
    for value in json_objects(raw):
        arguments = value.get("arguments", value.get("parameters", value))
        if isinstance(arguments, str):
            arguments = next(json_objects(arguments), {})
        for name, one in (arguments if isinstance(arguments, dict) else {}).items():
            values[name].append(one)
    return values


def is_value_of(delivered, raw):
    """Whether the delivered value is what the raw one says: as it is, or what its text says as JSON or in Python."""
    if delivered == raw and type(delivered) is type(raw):
        return True
    if not isinstance(raw, str):
        # A schema may want text where the model wrote JSON, and the other way round inside objects.
        return isinstance(delivered, str) and same_json(delivered, raw) or same_but_for_types(delivered, raw)
    return any(delivered == read for read in readings(raw)) or same_but_for_types(delivered, raw)


def readings(text):
    for read in (json.loads, ast.literal_eval):
        try:
            yield read(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    yield text.strip()


def same_json(text, value):
    try:
        return json.loads(text) == value
    except ValueError:
        return False


def same_but_for_types(a, b):
    """Equal when every scalar is read as text: "3" and 3, "true" and true."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_but_for_types(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_but_for_types, a, b))
    if isinstance(a, (dict, list)) or isinstance(b, (dict, list)):
        return any(not isinstance(r, str) and same_but_for_types(a, r) for r in readings(b)) if isinstance(b, str) else False
    return number_or_text(a) == number_or_text(b)


def number_or_text(value):
    text = str(value).strip()
    try:
        return float(text)
    except ValueError:
        return text.lower() if text.lower() in ("true", "false", "none", "null") else text
