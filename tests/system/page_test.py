#!/usr/bin/env python3
"""The page of `winnow serve` in a real browser, as its reader uses it.

    page_test.py PATH_TO_WINNOW

Where there is no Chromium (`scripts/bootstrap browser`), all of it skips.
"""

from __future__ import annotations

import re
import sys
import tempfile
import unittest
from pathlib import Path

from browser import Browser, find_browser
from scripted_model import write_scripted_model
from serve_process import ROOT, Server, wait_until

sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
QUEST = "quest:budget=128,block=32,dense_layers=0"
READY = "document.querySelector('#model').textContent !== ''"
DONE = "!document.querySelector('#send').disabled"
# Of each marked run of text: its words, and what they are.
MARKED = ("[...document.querySelectorAll('.page span')].filter((span) => "
          "span.style.background).map((span) => "
          "[span.textContent.trim().split(/ +/).length, span.textContent])")


def start(*flags: str, **environment: str) -> Server:
    return Server(WINNOW, "--select", f"{QUEST},dense", *flags, **environment)


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/"


@unittest.skipUnless(find_browser(),
                     "no chromium here: scripts/bootstrap browser installs it")
class PageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = start()
        cls.record = make_record("niah", 1024, 1, 0)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        assert status == 0, status

    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.__exit__)
        self.browser.open(url(self.server))
        self.browser.wait_for(READY)

    def ask(self, document: str, question: str, length: int = 16):
        self.browser.type("#document", document)
        self.browser.type("#question", question)
        self.browser.type("#length", str(length))
        self.browser.click("#send")

    def answer(self) -> str:
        return self.browser.text(".said.model")

    def test_answers_and_shows_figures(self):
        self.ask(self.record.context, self.record.question)
        self.browser.wait_for(DONE)
        self.assertEqual(self.answer().split(), self.record.answer.split())
        self.assertIn("6 written", self.browser.text("#status"))
        self.browser.wait_for(
            "document.querySelectorAll('.figure').length >= 3")
        figures = self.browser.text("#figures")
        for words in ("Requests0 run, 0 wait", "Tokens a second",
                      "KV on the device"):
            self.assertIn(words, figures)
        self.assertEqual(self.browser.complaints, [])

    def test_draws_what_the_model_looks_at(self):
        browser = self.browser
        browser.evaluate("document.querySelector('#select').selectedIndex = 0")
        self.ask(self.record.context, self.record.question)
        browser.wait_for(DONE)
        num_tokens = 1 + len(self.record.answer.split())  # and the end
        browser.wait_for("document.querySelectorAll('.page').length > 20")
        browser.wait_for("document.querySelector('#token-name').textContent"
                         f".startsWith('{num_tokens} of {num_tokens} ')")
        self.assertEqual(browser.evaluate(
            "document.querySelectorAll('.token').length"), num_tokens)
        # The text is the prompt, then what was generated.
        shown = browser.evaluate(
            "[...document.querySelectorAll('.page')].map((page) => "
            "[...page.querySelectorAll('span')].map((s) => s.textContent)"
            ".join('')).join('')")
        prompt = self.record.prompt.split()
        shown = shown.replace("<s>", "").split()
        self.assertTrue(shown[:len(prompt)] == prompt, shown[:20])
        self.assertEqual(shown[len(prompt):len(prompt) + 5],
                         self.record.answer.split())
        # A layer reads its budget, the first everything.
        self.choose_layer(1)
        self.assertIn("100.0 %", browser.text("#token-name"))
        self.choose_layer(3)
        share = float(re.search(r"([0-9.]+) %", browser.text("#token-name"))[1])
        self.assertTrue(5 < share < 30, share)
        marked = browser.evaluate(MARKED)
        self.assertTrue(128 <= sum(n for n, _ in marked) <= 2 * 128 + 64)
        # Where the cursor is, or the slider.
        browser.hover(".token:nth-child(1)")
        browser.wait_for("document.querySelector('#token-name').textContent"
                         ".startsWith('1 of')")
        self.assertIn("100.0 %", browser.text("#token-name"))
        browser.hover("h1")
        browser.wait_for("!document.querySelector('#token-name').textContent"
                         ".startsWith('1 of')")
        self.choose_token(2)
        self.assertTrue(browser.text("#token-name").startswith("3 of"))
        # While it writes the code, some layer looks at where the code stands.
        looked = []
        for layer in range(2, 7):
            self.choose_layer(layer)
            looked += [text for _, text in browser.evaluate(MARKED)]
        self.assertTrue(any(self.record.answer in text for text in looked))
        self.assertEqual(browser.complaints, [])

    def test_an_earlier_answer_is_left_alone(self):
        for length in (8, 2):
            self.ask(self.record.context, self.record.question, length)
            self.browser.wait_for(DONE)
        self.browser.wait_for("document.querySelectorAll('.page').length > 20")
        self.browser.hover(".said.model .token:nth-child(6)")
        self.browser.hover("h1")
        self.browser.wait_for("document.querySelector('#token-name')"
                              ".textContent.startsWith('2 of 2 ')")
        self.assertEqual(self.browser.complaints, [])

    def choose_layer(self, layer: int):
        self.slide("#layer", layer)

    def choose_token(self, index: int):
        self.slide("#token", index)

    def slide(self, selector: str, value: int):
        self.browser.evaluate(
            f"(() => {{ const s = document.querySelector('{selector}');"
            f"s.value = {value}; s.dispatchEvent(new Event('input'));"
            "return new Promise((done) => requestAnimationFrame(() =>"
            "requestAnimationFrame(() => done(true)))); })()")

    def test_stops(self):
        cancelled = 'finished_reason="abort"'
        before = self.server.metric("vllm:request_success_total", cancelled)
        self.browser.evaluate(
            "document.querySelector('#temperature').value = '2'")
        self.ask(self.record.context, "the", 2000)
        self.browser.wait_for("document.querySelector('.said.model')"
                              ".textContent.length > 20")
        self.browser.click("#stop")
        self.browser.wait_for(DONE)
        self.assertEqual(self.browser.text("#status"), "stopped")
        wait_until(lambda: self.server.metric(
            "vllm:request_success_total", cancelled) == before + 1,
            "the request is cancelled")

    def test_says_why_a_request_is_refused(self):
        self.ask("", "the", 100000)
        self.browser.wait_for(DONE)
        self.browser.wait_for("document.querySelector('#status').className "
                              "=== 'error'")
        self.assertIn("--max-model-len", self.browser.text("#status"))

    def test_the_policy_lets_in_nothing_else(self):
        run = self.browser.evaluate
        # Markup of a prompt stays text.
        self.ask("<img src=x onerror=\"window.bad=1\"> the code",
                 "<script>window.bad=1</script>", 2)
        self.browser.wait_for(DONE)
        self.assertIn("<script>", self.browser.text(".said"))
        self.assertEqual(run("document.images.length"), 0)
        self.assertEqual(self.browser.complaints, [])
        # Nor do the ways around it work.
        for script in ("document.body.innerHTML = '<b>'",
                       "document.body.setAttribute('onclick', 'bad = 1')"):
            self.assertTrue(run(f"(() => {{ try {{ {script}; return false; }}"
                                " catch { return true; } })()"), script)
        self.assertTrue(run("fetch('http://127.0.0.1:9/').then(() => false, "
                            "() => true)"))
        self.assertIsNone(run("window.bad"))
        self.assertTrue(any("Content Security Policy" in each
                            for each in self.browser.complaints))


@unittest.skipUnless(find_browser(),
                     "no chromium here: scripts/bootstrap browser installs it")
class DoorTest(unittest.TestCase):

    def test_talks_through_a_chat_template(self):
        with tempfile.TemporaryDirectory() as folder:
            template = Path(folder, "plain.jinja")
            template.write_text(
                "{{ bos_token }}{% for message in messages %}"
                "{{ message['content'] }} {% endfor %}")
            server = start("--chat-template", str(template))
        self.addCleanup(server.end)
        record = make_record("niah", 1024, 1, 0)
        with Browser() as browser:
            browser.open(url(server))
            browser.wait_for(READY)
            browser.type("#document", record.context)
            lengths = []
            for question in (record.question, "and " + record.question):
                browser.type("#question", question)
                browser.click("#send")
                browser.wait_for(DONE)
                browser.wait_for("picture.pieces[0] !== undefined")
                lengths.append(browser.evaluate("picture.entries[0].position"))
                # Where the prompt ends the answer begins.
                self.assertEqual(browser.evaluate(
                    "Object.keys(picture.pieces).length"), browser.evaluate(
                    "picture.entries.at(-1).position + 1"))
                self.assertIn(record.answer, " ".join(
                    browser.text(".said.model:last-child").split()))
            # The talk goes on: question, answer and next question.
            more = len(record.answer.split()) + 1 + len(
                record.question.split())
            self.assertTrue(more <= lengths[1] - lengths[0] <= more + 4,
                            lengths)
            self.assertEqual(browser.complaints, [])

    def test_thoughts_look_apart_from_the_answer(self):
        pieces = ["<think>", "So.", "</think>", "Yes", ", I do."]
        template = ("{% for message in messages %}{{ message['content'] }}"
                    "{% endfor %}{# <think> </think> #}")
        with tempfile.TemporaryDirectory() as folder:
            write_scripted_model(Path(folder), {"ask": pieces}, template)
            server = Server(WINNOW, model=folder)
            self.addCleanup(server.end)
            with Browser() as browser:
                browser.open(url(server))
                browser.wait_for(READY)
                browser.click("#watch")
                browser.type("#question", "ask")
                browser.click("#send")
                browser.wait_for(DONE)
                self.assertEqual(browser.text(".thought"), "So.")
                self.assertEqual(browser.text(".said.model"),
                                 "So.\n\nYes, I do.")
                self.assertEqual(browser.complaints, [])

    def test_asks_for_the_key_and_keeps_it_in_memory(self):
        server = start(WINNOW_API_KEY="secret")
        self.addCleanup(server.end)
        with Browser() as browser:
            browser.open(url(server))
            browser.wait_for("!document.querySelector('#door').hidden")
            self.assertEqual(browser.text("#model"), "")
            browser.type("#key", "wrong")
            browser.click("#door button")
            browser.wait_for("document.querySelector('#status').className "
                             "=== 'error'")
            browser.type("#key", "secret")
            browser.click("#door button")
            browser.wait_for(READY)
            self.assertTrue(browser.evaluate(
                "document.querySelector('#door').hidden"))
            self.assertEqual(browser.evaluate(
                "localStorage.length + sessionStorage.length + "
                "document.cookie.length"), 0)
            browser.open(url(server))
            browser.wait_for("!document.querySelector('#door').hidden")


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main(verbosity=2)
