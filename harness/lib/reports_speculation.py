"""Field reports of group (g): speculation, with the trained model's own block and its text as drafters."""
import concurrent.futures
import json
import tempfile

from reports import Gap, report, same, user
from reports_cache import cached_after_edits, draw, name_of

COUNTING = ["Count from 1 to 60, separated by commas.", "Say the alphabet from a to z, each letter once, separated by commas.",
            "Repeat this table exactly.\n\n| item | price |\n|---|---|\n" + "\n".join(f"| part {i} | {i * 37 % 101} |" for i in range(40))]


def drafted(server):
    """(tokens guessed, of them right)."""
    return tuple(server.metric(f"tempo9_speculation_{name}_total") for name in ("drafts", "accepted"))


def chat_bits(server, body, n):
    """An answer's tokens and their log-probabilities."""
    status, answer = server.post({"max_tokens": n, "temperature": 0, "logprobs": True, **body})
    same(status, 200)
    choice = answer["choices"][0]
    for one in choice["message"].get("tool_calls") or []:
        one["id"] = "drawn at random"
    return choice["message"], choice["finish_reason"], choice["logprobs"]


@report("G01", "counting, the alphabet and a table, depths 1 to 4")
def g01(t, h, q):
    bodies = [{"messages": user(text), "chat_template_kwargs": {"enable_thinking": False}} for text in COUNTING]
    with t.serve(t.hybrid_model) as server:
        expected = [chat_bits(server, body, 400) for body in bodies]
    said = []
    for depth in (1, 2, 3, 4):
        with t.serve(t.hybrid_model, "--speculation-k", str(depth)) as server:
            same([chat_bits(server, body, 400) for body in bodies], expected)
            n_drafted, n_right = drafted(server)
            assert n_right > 0
        said.append(f"{n_right:.0f} of {n_drafted:.0f}")
    return "right guesses by depth: " + ", ".join(said)


def workloads(t):
    """Bodies: those of bench/spec and of the model's own prompts, twice with another beginning."""
    from served import ROOT
    bodies = [json.loads(line) for line in (ROOT / "bench/spec/prompts.jsonl").read_text().splitlines()]
    bodies = [{k: v for k, v in body.items() if k != "workload"} for body in bodies if "messages" in body]
    told = json.loads((t.shared / "models/prompts.json").read_text())
    told = told["prompts"] if isinstance(told, dict) else told
    bodies += [{"messages": p["messages"], **({"tools": p["tools"]} if p.get("tools") else {}),
                "chat_template_kwargs": {"enable_thinking": bool(p.get("enable_thinking"))}} for p in told if p.get("messages")]
    more = [{**body, "messages": [{"role": "system", "content": "Answer in English."}, *body["messages"]]} for body in bodies
            if body["messages"][0]["role"] != "system"]
    return bodies + more


@report("G02", "greedy answers with and without")
def g02(t, h, q):
    bodies = workloads(t)
    answers = {}
    for depth in ("0", "4", "auto"):
        with t.serve(t.hybrid_model, "--speculation-k", depth) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers[depth] = list(pool.map(lambda body: chat_bits(server, body, 96), bodies))
            n_tokens = server.metric("tempo9_completion_tokens_total")
            assert depth == "0" or drafted(server)[1] > 0
    for depth in ("4", "auto"):
        n_other = sum(a != b for a, b in zip(answers["0"], answers[depth]))
        assert n_other == 0, f"depth {depth}: {n_other} of {len(bodies)} answers differ"
    return f"{len(bodies)} answers, {n_tokens:.0f} tokens, equal to the bit at depth 4 and auto: rate of differences 0"


@report("G05", "a drafter that is always wrong")
def g05(t, h, q):
    t.test("engine_test", "EngineTest.SpeculationThatIsAlwaysWrongChangesNothing:EngineTest.SpeculationCountsWithoutAGap")
    return "engine_test SpeculationThatIsAlwaysWrongChangesNothing: none accepted, the answer is the same"


@report("G07", "prefix reuse beside speculation")
def g07(t, h, q):
    cached = {}
    for depth in ("0", "4"):
        with t.serve(t.hybrid_model, "--speculation-k", depth) as server:
            cached[depth] = cached_after_edits(server, 1100, "g07")
    same(cached["4"], cached["0"])
    return "cached tokens of 1100 by where the prompt is changed, depth 0 and 4: " + ", ".join(
        f"{percent} % {n}" for percent, n in sorted(cached["0"].items()))


@report("G08", "the context ends before the guesses do")
def g08(t, h, q):
    # Texts that repeat themselves, so that both drafters guess up to the end.
    for model in (t.hybrid_model, t.small_model):
        prompts = [(draw(8, "g08") * 32)[:n] for n in (200, 250, 251, 252, 253, 254, 255)]
        answers = {}
        for depth in ("0", "4"):
            with t.serve(model, "--max-length", "256", "--speculation-k", depth) as server:
                answers[depth] = [(a.said, a.finish) for a in (server.complete(ids, 100) for ids in prompts)]
                same([len(said[0]) for said, _ in answers[depth]], [256 - len(ids) for ids in prompts])
                same({finish for _, finish in answers[depth]}, {"length"})
                n_drafted = drafted(server)[0] if depth != "0" else 0
        same(answers["4"], answers["0"])
        assert n_drafted > 0
    t.test("speculation_test", "*ChangesNothingWarmOrWhenPagesAreFew*")
    return "depth 4 in the last 1 to 6 slots of 256; speculation_test ChangesNothingWarmOrWhenPagesAreFew for few pages"


@report("G10", "speed with speculation against without")
def g10(t, h, q):
    said, slower, unclear = [], [], []
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for workload, text in (("table", COUNTING[2]), ("counting", COUNTING[0]), ("prose", "Write about the sea.")):
            file.write(json.dumps({"workload": workload, "messages": user(text), "chat_template_kwargs": {"enable_thinking": False}}) + "\n")
        file.flush()
        for model, rounds in ((t.hybrid_model, 8), (t.small_model, 4)):
            done = t.run("bench", "spec", "--gguf", model, "--prompts", file.name, "-k", "auto", "-n", "64", "-r", str(rounds), "--json")
            assert done.returncode == 0, done.stderr.decode()[-400:]  # 1 when an answer differs
            for one in json.loads(done.stdout)["results"]:
                median, (low, high) = one["speedup"], one["quartiles"]
                name = f"{name_of(t, model)} {one['workload']} {median:.2f} ({low:.2f} to {high:.2f})"
                said.append(name)
                if median < 0.95:
                    (slower if high < 0.95 else unclear).append(name)
    said = "tokens per second of auto / 0, medians and quartiles of pairs: " + ", ".join(said)
    assert not slower, said
    if unclear:
        raise Gap(f"not resolved, the pairs lie too far apart: {said}")
    return said
