"""The official BFCL checker on calls that are known to be right, and known to be wrong, sent through a server of tests whose
model says what it is told: bfcl_self_test.py URL, with the python of harness/bfcl.py's environment. All right ones must score,
and of the wrong ones (a value changed, a value of another type, a parameter left out, a call left out) none."""
import copy
import json
import sys
import urllib.request

from bfcl_eval.constants.enums import Language
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

CATEGORIES = ["simple_python", "multiple", "parallel", "parallel_multiple"]
N_CASES = 10  # of each
# One whose names of functions keep their dots.
MODEL = next(name for name, config in MODEL_CONFIG_MAPPING.items() if not config.underscore_to_dot)


def through_server(url, calls, functions):
    """[{name: arguments}] as the API delivers what the model said."""
    text = "\n".join(f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'
                     for one in calls for name, arguments in one.items())
    tools = [{"type": "function", "function": {"name": f["name"], "parameters": {**f["parameters"], "type": "object"}}} for f in functions]
    body = {"messages": [{"role": "user", "content": "SAY:" + text + "ENDSAY"}], "tools": tools}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        message = json.load(reply)["choices"][0]["message"]
    return [{c["function"]["name"]: json.loads(c["function"]["arguments"])} for c in message.get("tool_calls") or []]


def first_allowed(values):
    value = next(v for v in values if v != "")
    if isinstance(value, dict):
        return {key: first_allowed(some) for key, some in value.items() if "" not in some}
    if isinstance(value, list):
        return [first_allowed([v]) if isinstance(v, dict) else v for v in value]
    return value


def right_calls(truth):
    return [{name: {key: first_allowed(values) for key, values in arguments.items() if "" not in values}
             for name, arguments in one.items()} for one in truth]


def wrong_calls(calls):
    yield calls[:-1]
    (name, arguments), = calls[0].items()
    for key, value in arguments.items():
        others = ["zzz" if not isinstance(value, str) else 7, None]
        others.append(value + 7919 if type(value) in (int, float) else not value if isinstance(value, bool) else "qqq")
        for other in others:
            changed = copy.deepcopy(calls)
            changed[0][name][key] = other
            yield changed
        changed = copy.deepcopy(calls)
        del changed[0][name][key]
        yield changed


def main():
    url = sys.argv[1]
    n_right = n_wrong = 0
    for category in CATEGORIES:
        truths = {entry["id"]: entry["ground_truth"] for entry in load_ground_truth_entry(category)}
        for entry in load_dataset_entry(category)[:N_CASES]:
            truth, functions = truths[entry["id"]], entry["function"]

            def score(calls):
                delivered = through_server(url, calls, functions)
                return ast_checker(functions, delivered, truth, Language.PYTHON, category, MODEL)["valid"]

            calls = right_calls(truth)
            assert score(calls), f"{entry['id']}: right calls do not score: {calls}"
            n_right += 1
            for wrong in wrong_calls(calls):
                assert not score(wrong), f"{entry['id']}: wrong calls score: {wrong}"
                n_wrong += 1
    print(f"{n_right} of {n_right} right answers score, 0 of {n_wrong} wrong ones")


if __name__ == "__main__":
    main()
