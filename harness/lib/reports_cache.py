"""Field reports of group (e): prefix cache, disk cache, what a context has room for.

Most prompts are random token ids: what a model makes of them means nothing, but is the same to the bit each time. They
differ from run to run, so that nothing is left in a cache from the last one.
"""
import concurrent.futures
import contextlib
import fcntl
import pathlib
import random
import shutil
import tempfile
import threading
import time

from reports import Gap, questions, report, same, user
from reports_load import leave_after

RUN = time.time_ns()
PAGE = 32
STATE_INTERVAL = 512  # recurrent states of a prompt are kept so far apart, and on the last page before its end that
HEADER = 8            # leaves so many tokens, which a template may write otherwise in the next turn


def draw(n, name):
    """n ids of ordinary words of each model tried here."""
    ids = random.Random(f"{RUN} {name}")
    return [ids.randrange(300, 8000) for _ in range(n)]


def is_hybrid(t, model):
    return model == t.hybrid_model


def name_of(t, model):
    return {t.hybrid_model: "qwen35", t.small_model: "llama"}.get(model, "gemma3")


# --- prefixes in memory

BILLING = "x-anthropic-billing-header: cc_version=2.1.36; cch="


@report("E01", "the first line of Claude Code's system prompt changes")
def e01(t, h, q):
    rules = " ".join(f"Rule {i} of {RUN}: keep to the style of the file." for i in range(40))

    def ask(messages, number):
        system = [{"type": "text", "text": f"{BILLING}{number:05x}"}, {"type": "text", "text": "You are Claude Code."},
                  {"type": "text", "text": rules}]
        status, answer = h.post({"system": system, "messages": messages, "max_tokens": 12, "temperature": 0}, "/v1/messages")
        same(status, 200)
        usage = answer["usage"]
        return answer, usage["cache_read_input_tokens"], usage["input_tokens"] + usage["cache_read_input_tokens"]

    messages = user("Name a colour.")
    first, _, n_first = ask(messages, 0x91b2c)
    messages += [{"role": "assistant", "content": first["content"]}, *user("And another.")]
    _, n_read, n_second = ask(messages, 0x3fa07)
    assert n_read >= n_first - 2 * PAGE, f"{n_read} of {n_first} read again"
    return f"{n_read} of the first turn's {n_first} tokens come from the cache, the second has {n_second}"


def cached_after_edits(server, n, name):
    """{per cent: cached tokens} of a prompt that differs from one before at that place; 100: of the prompt itself."""
    ids = draw(n, name)
    first, again = server.complete(ids), server.complete(ids)
    same(again.said, first.said)
    cached = {100: again.cached}
    for percent in (25, 50, 90, 99):
        edited = list(ids)
        edited[n * percent // 100] = 299
        cached[percent] = server.complete(edited).cached
    return cached


@report("E02", "the same prompt again, then with one token changed")
def e02(t, h, q):
    rows = []
    for model, n in ((t.hybrid_model, 1700), (t.small_model, 600), (t.sliding_model, 800)):
        with t.serve(model) as server:
            cached = cached_after_edits(server, n, "e02")
        for percent, n_cached in cached.items():
            n_alike = n - 1 if percent == 100 else n * percent // 100
            if is_hybrid(t, model):
                n_alike = (n - HEADER) // PAGE * PAGE if percent == 100 else n_alike // STATE_INTERVAL * STATE_INTERVAL
            assert n_cached >= n_alike, f"{name_of(t, model)}, changed at {percent} %: {n_cached} of {n_alike} cached"
        rows.append(f"{name_of(t, model)} {n}: " + ", ".join(f"{percent} % {cached[percent]}" for percent in sorted(cached)))
    return "cached tokens by where the prompt is changed; " + "; ".join(rows)


@report("E04", "the identical prompt five times, at the ends of pages")
def e04(t, h, q):
    for server in (h, q):
        for n in (1, 31, 32, 33, 64, 65, 512):
            ids = draw(n, f"e04 {n}")
            answers = [server.complete(ids) for _ in range(5)]
            same({a.said for a in answers}, {answers[0].said})
            same(len(answers[0].said[0]), 4)


def cold(t, model, prompt, **more):
    with t.serve(model) as server:
        return server.complete(prompt, **more).said


@report("E05", "a prompt, then its beginnings")
def e05(t, h, q):
    for model in (t.hybrid_model, t.small_model):
        n = 160
        ids = draw(n, "e05")
        with t.serve(model) as server:
            for length in (n, n - 1, n // 2, 1):
                same(server.complete(ids[:length]).said, cold(t, model, ids[:length]))
            words = [f"w{i}" for i in range(60)]
            for length in (60, 59, 30, 1, 0):
                body = {"prompt": " ".join(words[:length]), "raw": True, "stream": False, "options": {"num_predict": 4, "temperature": 0}}
                status, answer = server.post(body, "/api/generate")
                same((status, answer["done_reason"] == "load"), (200, length == 0))
            same(server.post({"prompt": [], "max_tokens": 4}, "/v1/completions")[0], 400)
            same(server.complete(ids).said, cold(t, model, ids))


@report("E06", "16 clients, each with its own secret")
def e06(t, h, q):
    said = []
    for model, n_each in ((t.hybrid_model, 4), (t.small_model, 2)):
        secrets = [f"{random.Random(f'{RUN} {i}').randrange(16**6):06x}" for i in range(16 * n_each)]

        def ask(server, i):  # a text that goes on with the secret, whoever reads it
            return server.complete("Every client has a nonce of its own.\n" + f"My nonce is {secrets[i]}.\n" * 4, 14).text

        def client(server, number):
            answers = {}
            for i in range(number * n_each, (number + 1) * n_each):
                if i % 5 == 0:
                    leave_after(server, 0.05, messages=user(f"Repeat nonce {secrets[i]}"), max_tokens=200, temperature=0)
                answers[i] = ask(server, i)
            return answers

        with t.serve(model) as server:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                together = {i: text for answers in pool.map(lambda k: client(server, k), range(16)) for i, text in answers.items()}
        with t.serve(model) as server:
            for i, text in together.items():
                assert not any(other in text for other in secrets if other != secrets[i]), (secrets[i], text)
                same(text, ask(server, i))
        n_own = sum(secrets[i] in text for i, text in together.items())
        assert n_own > len(together) / 2, f"only {n_own} of {len(together)} answers have a secret at all"
        said.append(f"{name_of(t, model)}: {n_own} of {len(together)} answers have their own secret, none another's")
    return "; ".join(said)


@report("E08", "two prompts of one hash")
def e08(t, h, q):
    t.test("kv_test", "Reuse.RandomOperationsNeverMixTexts:DiskIndex.MatchesByTokensAndKeepsItsPlaceWhenPartsGo")
    t.test("image_engine_test", "*AnotherImageNeverHits*:PromptImages.KeysTellImagesApart")
    return "kv_test Reuse.*, DiskIndex.*: pages are found by tokens, there is no hash; image_engine_test AnotherImageNeverHits"


# --- on disk

def on_disk(folder, gb=1.0):
    return {"AS_KV_OFFLOAD": "1", "AS_KV_OFFLOAD_PATH": str(folder), "AS_KV_OFFLOAD_GB": str(gb)}


def segments(folder):
    return sorted(pathlib.Path(folder).rglob("*.t9kv"))


def flip(files):
    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) * 3 // 4] ^= 1
        file.write_bytes(data)


def rewrite(change):
    return lambda files: [file.write_bytes(change(file.read_bytes())) for file in files]


def swap(files):
    first, second = files[0].read_bytes(), files[-1].read_bytes()
    files[0].write_bytes(second)
    files[-1].write_bytes(first)


# What is done to the files, and whether it must be noticed: a file is found by the text in it, whatever its name.
DAMAGES = {"nothing": (lambda files: None, False), "a bit flipped in each": (flip, True),
           "cut in half": (rewrite(lambda data: data[:len(data) // 2]), True), "empty": (rewrite(lambda data: b""), True),
           "two swapped": (swap, False), "of another version": (rewrite(lambda data: data[:4] + b"\x07" + data[5:]), True)}


@report("E09", "saved files that are damaged")
def e09(t, h, q):
    texts = [draw(n, f"e09 {n}") for n in (300, 640)]
    said = []
    with tempfile.TemporaryDirectory() as root:
        kept = pathlib.Path(root, "kept")
        with t.serve(t.hybrid_model, **on_disk(kept)) as server:
            expected = [server.complete(ids).said for ids in texts]
            fresh = server.complete(draw(100, "e09 new")).said
        assert len(segments(kept)) >= 2
        for name, (damage, is_noticed) in DAMAGES.items():
            folder = pathlib.Path(root, name.replace(" ", "-"))
            shutil.copytree(kept, folder)
            damage([file for file in segments(folder)])
            with t.serve(t.hybrid_model, **on_disk(folder)) as server:
                answers = [server.complete(ids) for ids in texts]
                same([a.said for a in answers], expected)
                same(server.complete(draw(100, "e09 new")).said, fresh)
                same([a.cached > 0 for a in answers], [not is_noticed] * 2)
                n_damaged = server.metric("tempo9_kv_disk_damaged_total")
                assert (n_damaged > 0) == is_noticed, f"{name}: {n_damaged} counted"
            said.append(f"{name}: {n_damaged:.0f} counted")
    return f"{len(texts)} texts; " + ", ".join(said)


class Watched:
    """The most bytes that a folder ever held. Under its lock, which is held while files come and go."""

    def __init__(self, folder):
        self.folder, self.most, self.is_over = folder, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.is_over.wait(0.02):
            with contextlib.suppress(FileNotFoundError), open(self.folder / "lock", "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.most = max(self.most, sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


@report("E11", "one folder, two models in turn, its cap")
def e11(t, h, q):
    cap = 24_000_000
    n_kept = []
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        with Watched(folder) as watched:
            for turn, (model, n, n_texts) in enumerate([(t.small_model, 300, 5), (t.hybrid_model, 600, 10)] * 2):
                with t.serve(model, **on_disk(folder, cap / 1e9)) as server:
                    for i in range(n_texts):
                        server.complete(draw(n, f"e11 {turn} {i}"), 1)
                with t.serve(model, **on_disk(folder, cap / 1e9)) as server:
                    cached = server.complete(draw(n, f"e11 {turn} {n_texts - 1}"), 1).cached
                    assert cached >= n - 2 * PAGE, f"turn {turn}: {cached} of {n} tokens were there after a restart"
                    n_kept.append(server.metric("tempo9_kv_disk_bytes"))
        assert 0.5 * cap < watched.most <= cap, f"{watched.most} bytes, {cap} are allowed"
    return (f"at most {watched.most / 1e6:.1f} of {cap / 1e6:.0f} MB at any time; after each turn "
            f"{', '.join(f'{n / 1e6:.1f}' for n in n_kept)}, the last text usable")


# --- the context's end

@report("E13", "an answer that reaches the context's end")
def e13(t, h, q):
    with t.serve(t.small_model, "--max-length", "1024") as server:
        answer = server.complete(draw(900, "e13"), 300)
        same((answer.finish, answer.n_prompt + len(answer.said[0])), ("length", 1024))


@report("E14", "a prompt over the window; nothing is cut in silence")
def e14(t, h, q):
    with t.serve(t.small_model, "--max-length", "1024") as server:
        for n in (1025, 1500, 20_000):
            empty = server.post({"messages": user("a")}, "/v1/messages/count_tokens")[1]["input_tokens"]
            text = "a" + " a" * (n - empty)
            same(server.post({"messages": user(text)}, "/v1/messages/count_tokens")[1]["input_tokens"], n)
            for path, body in questions(text, 4).items():
                status, answer = server.post(body, path)
                same(status, 400)
                assert str(n) in str(answer) and "1024" in str(answer), (path, answer)
    n_sent = n_answered = 0
    with t.serve(t.hybrid_model, "--max-length", "1024") as server:
        for n in (1, 40, 500, 500, 1000, 1023):
            answer = server.complete(draw(n, "e14"), 1)
            n_sent, n_answered = n_sent + n, n_answered + answer.n_prompt
        counted, n_cached = (server.metric(f"tempo9_{name}_total") for name in ("prompt_tokens", "prompt_tokens_reused"))
        # A prompt's only row counts as one of decoding; answers of one token have no other.
        n_rows = sum(server.metric(f"tempo9_rows_{kind}_total") for kind in ("prefill", "decode"))
    same((n_answered, counted, n_rows + n_cached), (n_sent, n_sent, n_sent))
    return f"400 with both numbers in four dialects; {n_sent} sent = {n_rows:.0f} evaluated + {n_cached:.0f} cached"


# --- conversations

THOUGHT_OFF = "<think>\n\n</think>\n\n"


def turn(server, messages, thinking, n=10):
    """Adds the answer and a next question; gives its usage."""
    body = {"messages": messages, "max_tokens": n, "temperature": 0, "chat_template_kwargs": {"enable_thinking": thinking}}
    status, answer = server.post(body)
    same(status, 200)
    message = answer["choices"][0]["message"]
    messages += [{"role": "assistant", "content": message.get("content") or "Yes."}, *user(f"And number {len(messages)}?")]
    return answer["usage"]


@report("E16", "the empty thought of the last turn vanishes in the next")
def e16(t, h, q):
    n_vanish = len(t.tokens(THOUGHT_OFF, t.hybrid_model))
    n_read_again = []
    with t.serve(t.hybrid_model) as server:
        for talk in range(12):
            messages = [{"role": "system", "content": f"Talk {talk}. " + "Be brief. " * (60 + talk)}, *user("Name a colour.")]
            before = None
            for _ in range(6):
                usage = turn(server, messages, thinking=False)
                if before is not None:
                    begin = before - n_vanish  # of what the assistant said last, which the template now writes otherwise
                    n_read_again.append(begin - usage["prompt_tokens_details"]["cached_tokens"])
                before = usage["prompt_tokens"]
    n_far = sum(n > PAGE + HEADER for n in n_read_again)
    assert n_far == 0, (f"in {n_far} of {len(n_read_again)} turns more than a page before the last answer is read again, "
                        f"up to {max(n_read_again)} tokens")
    return f"{len(n_read_again)} turns read at most {max(n_read_again)} tokens before the last answer again"


@report("E17", "thoughts take room in the cache")
def e17(t, h, q):
    written = {}
    for thinking in (True, False):
        with tempfile.TemporaryDirectory() as folder, t.serve(t.hybrid_model, **on_disk(folder)) as server:
            messages = user("Reverse the word lantern.")
            n_completion = 0
            for _ in range(8):
                n_completion += turn(server, messages, thinking, 120)["completion_tokens"]
            kept = server.metric("tempo9_kv_pages_kept")
            server.stop()
            written[thinking] = (sum(f.stat().st_size for f in segments(folder)) / 8e3, kept, n_completion)
    (kb_with, pages_with, n_with), (kb_without, pages_without, n_without) = written[True], written[False]
    raise Gap(f"thoughts are kept and written like all else until they are the least recently used; 8 turns with them ({n_with} "
              f"tokens written by the model): {kb_with:.0f} kB a turn on disk, {pages_with:.0f} pages in memory; without "
              f"({n_without} tokens): {kb_without:.0f} kB, {pages_without:.0f} pages")


@report("E18", "two branches of one text, in turn")
def e18(t, h, q):
    said = []
    for model in (t.hybrid_model, t.small_model, t.sliding_model):
        trunk, x, y = draw(700 if is_hybrid(t, model) else 300, "e18"), draw(70, "x"), draw(70, "y")
        with t.serve(model) as server:
            first, other, again = (server.complete(trunk + branch) for branch in (x, y, x))
            same(again.said, first.said)
            n = again.n_prompt - 1
            n_least = (again.n_prompt - HEADER) // PAGE * PAGE if is_hybrid(t, model) else n
            assert again.cached >= n_least, f"{name_of(t, model)}: {again.cached} of {n_least} cached"
            branch = f"common={len(trunk)} why="
            assert branch in server.log.read_text(), server.log.read_text()
        said.append(f"{name_of(t, model)} {other.cached} then {again.cached} of {again.n_prompt}")
    return "cached tokens: " + ", ".join(said)


def probe(server, ids, chunk):
    """The answer when the text was read in such chunks."""
    for end in range(chunk, len(ids), chunk):
        server.complete(ids[:end], 1)
    return server.complete(ids, 8)


@report("E21", "int8 keys and values over every join")
def e21(t, h, q):
    said = []
    for model in (t.hybrid_model, t.small_model):
        ids = draw(128, "e21")
        answers = {}
        with tempfile.TemporaryDirectory() as folder:
            for chunk in (1, 7, 64, 128):
                place = on_disk(folder) if chunk == 128 else {}
                with t.serve(model, "--kv-type", "q8_0", **place) as server:
                    answers[chunk] = probe(server, ids, chunk)
            with t.serve(model, "--kv-type", "q8_0", **on_disk(folder)) as server:
                answers["disk"] = server.complete(ids, 8)
        assert answers["disk"].cached > 0, "nothing came from disk"
        same({a.said for a in answers.values()}, {answers[128].said})
        with t.serve(model) as server:
            exact = server.complete(ids, 8)
        # Until the texts part, the same tokens are valued.
        n = next((i for i, (a, b) in enumerate(zip(exact.said[0], answers[128].said[0])) if a != b), 8)
        most = max((abs(a - b) for a, b in zip(exact.said[1][:n], answers[128].said[1])), default=0.0)
        assert most < 0.5, f"{name_of(t, model)}: a log-probability is {most:.2f} from that of f16"
        said.append(f"{name_of(t, model)} {most:.3f} over {n} tokens")
    return "equal bits in chunks of 1, 7, 64, all, and from disk; most from f16, in nats: " + ", ".join(said)
