#!/usr/bin/env python3
"""The page of `winnow serve` in a real browser, as its reader uses it.

    page_test.py PATH_TO_WINNOW

Where there is no Chromium (`scripts/bootstrap browser`), all of it skips.
"""

from __future__ import annotations

import sys
import unittest

from browser import Browser, find_browser
from serve_process import ROOT, Server, wait_until

sys.path.insert(0, str(ROOT))

from lab.tasks.record import make_record  # noqa: E402

WINNOW = ""
QUEST = "quest:budget=128,block=32,dense_layers=0"
READY = "document.querySelector('#model').textContent !== ''"
DONE = "!document.querySelector('#send').disabled"


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
        self.assertIn("tokens read", self.browser.text("#status"))
        self.browser.wait_for(
            "document.querySelectorAll('.figure').length >= 3")
        figures = self.browser.text("#figures")
        for words in ("Requests0 run, 0 wait", "Tokens a second",
                      "KV on the device"):
            self.assertIn(words, figures)
        self.assertEqual(self.browser.complaints, [])

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
