"""The status page in a headless Chromium, against a server with a real model.

    test_page.py [--screenshots FOLDER] URL [CHROMIUM [URL_WITH_IMAGES]]

The first server guesses (--speculation-k), the second one takes images.
"""
import contextlib
import json
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request

from playwright.sync_api import expect, sync_playwright

from checks import Server, check, run_all

MOST_BYTES = 60 * 1024
IDLE_SECONDS = 8
MOST_OF_A_CORE = 0.01
# An answer that is long whatever the model would like.
LONG = {"type": "json_schema", "json_schema": {"name": "long", "schema": {
    "type": "object", "properties": {"text": {"type": "string", "minLength": 20000}}, "required": ["text"]}}}


def post(url, path, **body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


class Pages:
    """Pages of one browser. What goes wrong in one, or goes elsewhere, fails the check."""

    def __init__(self, browser, url, screenshots, url_with_images=None):
        self.browser = browser
        self.url = url
        self.screenshots = screenshots
        self.url_with_images = url_with_images

    @contextlib.contextmanager
    def open(self, url=None, **options):
        url = url or self.url
        context = self.browser.new_context(**options)
        page = context.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and problems.append(message.text))
        page.on("request", lambda request: request.url.startswith((url, "data:")) or problems.append(request.url))
        page.goto(url + "/")
        expect(page.locator("#state")).not_to_have_text("connecting")
        yield page
        context.close()
        assert not problems, problems

    def keep(self, page, name):
        if self.screenshots:
            page.screenshot(path=str(pathlib.Path(self.screenshots, name + ".png")), full_page=True)


@contextlib.contextmanager
def long_answer(url):
    """An answer that is being written in the block; gives a list that gets its end, one way or the other."""
    end = []

    def ask():
        try:
            end.append(post(url, "/v1/chat/completions", messages=[{"role": "user", "content": "Tell me everything."}],
                            response_format=LONG))
        except urllib.error.HTTPError as error:
            end.append(error.read().decode())
    thread = threading.Thread(target=ask)
    thread.start()
    Server(url).wait_metric("tempo9_requests_running", lambda n: n == 1)
    yield end
    thread.join(60)
    assert end, "the answer has no end"


@check
def the_page_is_one_small_file_and_other_clients_get_text(pages):
    request = urllib.request.Request(pages.url + "/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request) as reply:
        body = reply.read()
        assert reply.headers["Content-Type"].startswith("text/html")
    assert len(body) <= MOST_BYTES, len(body)
    with urllib.request.urlopen(pages.url + "/") as reply:
        assert reply.headers["Content-Type"].startswith("text/plain")
    print(f"       {len(body)} bytes")


@check
def it_shows_the_model_and_what_was_served(pages):
    name = json.load(urllib.request.urlopen(pages.url + "/v1/models"))["data"][0]["id"]
    # Drawn tokens may end an answer early; these four are always the same, and more would follow.
    post(pages.url, "/v1/chat/completions", messages=[{"role": "user", "content": "Say hello."}], max_tokens=4, temperature=0)
    with pages.open() as page:
        expect(page.locator("#name")).to_have_text(name)
        expect(page).to_have_title(name + " \u2013 tempo9")
        expect(page.locator("#about")).to_contain_text("llama Q4_1")
        expect(page.locator("#ttft")).not_to_have_text("\u2013")
        expect(page.locator("#ttft-plot rect").first).to_be_attached()
        expect(page.locator("#ttft-most")).to_contain_text("requests")
        expect(page.locator("#memory-key")).to_contain_text("KV cache")
        expect(page.locator("#totals")).to_contain_text("energy")
        expect(page.locator("#totals")).to_contain_text("length")
        expect(page.locator(".images")).to_be_hidden()


@check
def what_it_counts_is_what_metrics_says(pages):
    server = Server(pages.url)
    with pages.open() as page:
        def shown(name):
            row = page.locator("#totals dt", has_text=name).locator("xpath=following-sibling::dd[1]")
            return float(row.inner_text().split()[0].replace("\u202f", ""))
        assert shown("tokens written") == server.metric("tempo9_completion_tokens_total")
        assert shown("prompt tokens") == server.metric("tempo9_prompt_tokens_total")
        used = server.metric("tempo9_kv_pages_used")
        expect(page.locator("#pages-used")).to_have_text(f"{used:.0f}")


@check
def guesses_are_shown_by_how_far_ahead_they_are(pages):
    words = "one two three four five six seven eight nine ten " * 6
    schema = {"type": "object", "properties": {"text": {"const": words}}, "required": ["text"]}
    post(pages.url, "/v1/chat/completions", messages=[{"role": "user", "content": "Write: " + words}], temperature=0,
         response_format={"type": "json_schema", "json_schema": {"name": "words", "schema": schema}})
    with pages.open() as page:
        first = page.locator("#guesses tr").first
        expect(first).to_contain_text("1 (from the text)")
        expect(first.locator("td").nth(2)).to_contain_text("%")
        expect(page.locator("#gates")).to_contain_text("closed")


@check
def images_are_counted(pages):
    if not pages.url_with_images:
        print("       not tried: no server that takes images")
        return
    dot = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mM4oaFBEmIY1TCqYfhqAAB8MxgQ"
           "+iSj5QAAAABJRU5ErkJggg==")
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": dot}},
                                           {"type": "text", "text": "What is this?"}]}
    for _ in range(3):
        post(pages.url_with_images, "/v1/chat/completions", messages=[message], max_tokens=4)
    with pages.open(url=pages.url_with_images) as page:
        facts = page.locator("#images")
        expect(facts.locator("dt", has_text="encoded").nth(1).locator("xpath=following-sibling::dd[1]")).to_have_text("1")
        expect(facts.locator("dt", has_text="reused").locator("xpath=following-sibling::dd[1]")).to_have_text("2")
        expect(facts.locator("dt", has_text="being encoded").locator("xpath=following-sibling::dd[1]")).to_have_text("0")
        expect(page.locator(".guesses")).to_be_hidden()
        pages.keep(page, "status-images")


@check
def a_request_under_way_is_shown_and_can_be_cancelled(pages):
    with pages.open() as page, long_answer(pages.url) as end:
        row = page.locator("#active tr")
        expect(row).to_contain_text("/v1/chat/completions")
        expect(row).to_contain_text("answering")
        expect(page.locator("#state")).to_have_text("working")
        page.wait_for_timeout(3000)  # for the plots
        pages.keep(page, "status-light")
        row.get_by_role("button").click()
        expect(row).to_have_count(0)
        expect(page.locator("#none")).to_be_visible()
    assert "cancelled on the server's status page" in json.dumps(end[0]), end


@check
def a_request_that_is_gone_cannot_be_cancelled(pages):
    try:
        post(pages.url, "/status/cancel/req_none")
    except urllib.error.HTTPError as error:
        assert error.code == 404, error.code
        return
    raise AssertionError("no error")


@check
def the_chat_box_answers_stops_and_begins_anew(pages):
    def with_fields(**fields):
        return lambda route: route.continue_(post_data=json.dumps({**route.request.post_data_json, **fields}))

    with pages.open() as page:
        page.route("**/v1/chat/completions", with_fields(max_tokens=32))  # a small model may go on for ever
        page.locator("#message").fill("Say hello.\n")
        page.locator("#message").press("Enter")
        expect(page.locator("#talk div")).to_have_count(2)
        expect(page.locator("#send")).to_have_text("Send", timeout=60_000)
        assert page.locator("#talk div").nth(1).inner_text().strip()
        page.unroute("**/v1/chat/completions")
        page.route("**/v1/chat/completions", with_fields(response_format=LONG))
        page.locator("#message").fill("Tell me everything.")
        page.locator("#send").click()
        expect(page.locator("#send")).to_have_text("Stop")
        expect(page.locator("#talk div").nth(3)).not_to_be_empty()
        page.locator("#send").click()
        expect(page.locator("#talk .soft")).to_have_text("stopped")
        expect(page.locator("#send")).to_have_text("Send")
        Server(pages.url).wait_metric("tempo9_requests_running", lambda n: n == 0)
        page.locator("#anew").click()
        expect(page.locator("#talk div")).to_have_count(0)


@check
def every_client_has_its_settings(pages):
    with pages.open() as page:
        names = page.locator("#client option").all_inner_texts()
        assert len(names) >= 9, names
        for name in names:
            page.locator("#client").select_option(name)
            text = page.locator("#snippet").inner_text()
            assert pages.url in text, (name, text)


@check
def a_phone_in_the_dark_needs_no_sideways_scrolling(pages):
    with pages.open(viewport={"width": 375, "height": 720}, color_scheme="dark", has_touch=True) as page:
        expect(page.locator("#guesses tr").first).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, width
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert back == "rgb(20, 20, 19)", back
        pages.keep(page, "status-phone-dark")


@check
def an_idle_page_costs_next_to_nothing(pages):
    """The page's own main thread, and the server's whole process."""
    def server_seconds():
        return sum(float(n) for n in pathlib.Path(f"/proc/{server}/stat").read_text().rsplit(")")[1].split()[11:13]) / 100

    server = os.environ.get("TEMPO9_PID")
    with pages.open() as page:
        page.wait_for_timeout(2000)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def page_seconds():
            return {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}["TaskDuration"]

        before = page_seconds(), server_seconds() if server else 0
        started = time.monotonic()
        page.wait_for_timeout(IDLE_SECONDS * 1000)
        seconds = time.monotonic() - started
        shares = [(page_seconds() - before[0]) / seconds, ((server_seconds() if server else 0) - before[1]) / seconds]
    print(f"       page {shares[0]:.2%}, server {shares[1]:.2%} of a core" + ("" if server else " (not measured)"))
    assert max(shares) < MOST_OF_A_CORE, shares


def main():
    arguments = sys.argv[1:]
    screenshots = None
    if arguments[:1] == ["--screenshots"]:
        screenshots = arguments[1]
        arguments = arguments[2:]
    url = arguments[0].rstrip("/")
    chromium = arguments[1] if len(arguments) > 1 else "/usr/bin/chromium"
    url_with_images = arguments[2].rstrip("/") if len(arguments) > 2 else None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        code = run_all(Pages(browser, url, screenshots, url_with_images))
        browser.close()
    raise SystemExit(code)


if __name__ == "__main__":
    main()
