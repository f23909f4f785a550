"""A headless Chromium for tests, driven by its DevTools protocol over a pair of pipes, with the standard library alone.

    class Pages(browser.TestCase):            # skips or fails where there is no Chromium; one browser for the class
        def test_page(self):
            self.page.open(url)
            self.page.click("#tab-front")     # a real press of the mouse, where the element is on the screen
            self.quiet()                      # no console error, nothing asked of the network

Without Chromium a test fails; ORRERY_SKIP_BROWSER=1 in the environment makes it skip.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LOCAL = ("file:", "data:", "blob:", "about:")
KEYS = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
        "Home": 36, "End": 35}


def required() -> None:
    """Fails the test where there is no Chromium; skips it where ORRERY_SKIP_BROWSER says so."""
    if os.environ.get("ORRERY_SKIP_BROWSER", "0") not in ("", "0"):
        raise unittest.SkipTest("ORRERY_SKIP_BROWSER is set")
    if CHROMIUM is None:
        raise AssertionError("expected Chromium, found none: tools/setup test, or ORRERY_SKIP_BROWSER=1 to go without")


class PageGone(RuntimeError):
    """The page that a script was to run in gave way to another meanwhile."""

    MESSAGES = ("Inspected target navigated or closed", "Execution context was destroyed.",
                "Cannot find default execution context")


class Browser:
    """`with Browser() as b: b.open(url)`; console messages and requested addresses are recorded from the start."""

    def __init__(self, width: int = 1366, height: int = 768) -> None:
        self.size = (width, height)

    def __enter__(self) -> Browser:
        self.profile = tempfile.TemporaryDirectory(prefix="orrery-chromium-", ignore_cleanup_errors=True)
        self.events: list[dict] = []
        self.answers: dict[int, dict] = {}
        self.calls, self.session, self.rest = 0, "", b""
        self._start()
        try:
            self._attach()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.to)  # Chromium ends with its pipe
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=10)
        os.close(self.of)
        self.profile.cleanup()

    def _start(self) -> None:
        arguments = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     f"--window-size={self.size[0]},{self.size[1]}", f"--user-data-dir={self.profile.name}",
                     "--remote-debugging-pipe", "about:blank"]
        read, self.to = os.pipe()
        self.of, write = os.pipe()

        def place() -> None:  # Chromium reads file 3 and writes file 4, which may be the pipes' own numbers: copies first
            high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read, write)]
            for end, number in zip(high, (3, 4)):
                os.dup2(end, number)

        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=place)
        os.close(read)
        os.close(write)

    def _attach(self) -> None:
        """To the first page."""
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.resize(*self.size)

    def _call(self, method: str, limit_s: float = 120.0, **parameters: object) -> dict:
        """What the browser answers; RuntimeError with its message if it refuses."""
        self.calls += 1
        number = self.calls
        self._send({"id": number, "method": method, "params": parameters})
        end = time.monotonic() + limit_s
        while number not in self.answers:
            self._receive(end - time.monotonic(), method)
        answer = self.answers.pop(number)
        if "error" in answer:
            message = str(answer["error"].get("message"))
            raise (PageGone if message in PageGone.MESSAGES else RuntimeError)(f"{method}: {message}")
        return answer["result"]

    def _send(self, message: dict) -> None:
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]

    def _receive(self, limit_s: float, wanted: str) -> None:
        """Reads what there is; waits for it up to `limit_s` seconds, then TimeoutError."""
        if not select.select([self.of], [], [], max(0.0, limit_s))[0]:
            raise TimeoutError(f"the browser did not answer {wanted}")
        data = os.read(self.of, 1 << 20)
        if not data:
            raise RuntimeError("the browser has ended")
        *messages, self.rest = (self.rest + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)
                if message["method"] == "Page.javascriptDialogOpening":
                    self.calls += 1
                    self._send({"id": self.calls, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}})

    def _take(self, *methods: str) -> list[dict]:
        """The parameters of recorded events of these kinds, with their kind under "event"; they are forgotten."""
        while select.select([self.of], [], [], 0)[0]:
            self._receive(0, "")
        taken = [event for event in self.events if event["method"] in methods]
        self.events = [event for event in self.events if event["method"] not in methods]
        return [{"event": event["method"], **event["params"]} for event in taken]

    def command(self, name: str, **parameters: object) -> dict:
        """A DevTools command."""
        return self._call(name, **parameters)

    def open(self, url: str, limit_s: float = 60.0) -> None:
        """Returns when the page and its parts are loaded, and its own scripts, if it keeps them compressed, have started."""
        self._take("Page.lifecycleEvent", "Page.loadEventFired")
        answer = self._call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url}: {answer['errorText']}")
        end = time.monotonic() + limit_s
        while "loaderId" in answer and not self._take("Page.loadEventFired"):  # none: only the part after # is new
            self._receive(end - time.monotonic(), url)
        self.wait("return !document.querySelector('script[type=\"text/late\"]')", limit_s=max(1.0, end - time.monotonic()))

    def run(self, script: str, *arguments: object) -> object:
        """What the function body `script` returns, or the promise that it returns."""
        text = f"(function () {{ {script}\n}}).apply(null, {json.dumps(arguments)})"
        answer = self._call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in answer:
            fault = answer["exceptionDetails"]
            raise RuntimeError(fault.get("exception", {}).get("description") or fault["text"])
        return answer["result"].get("value")

    def wait(self, script: str, *arguments: object, limit_s: float = 60.0) -> None:
        """Returns once `script` returns true; TimeoutError if it does not."""
        end = time.monotonic() + limit_s
        while not self._holds(script, *arguments):
            if time.monotonic() > end:
                raise TimeoutError(script)
            time.sleep(0.02)

    def _holds(self, script: str, *arguments: object) -> bool:
        """Whether `script` returns true; false while one page gives way to the next."""
        try:
            return bool(self.run(script, *arguments))
        except PageGone:
            return False

    def click_at(self, x: float, y: float, count: int = 1) -> None:
        """Moves the mouse there and presses it, in pixels from the window's top left corner."""
        common = {"x": x, "y": y, "button": "left", "clickCount": count}
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self._call("Input.dispatchMouseEvent", type="mousePressed", buttons=1, **common)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", **common)

    def click(self, selector: str) -> None:
        """Scrolls the first such element into the window and clicks its middle; RuntimeError if another covers it."""
        place = self.run("""const e = document.querySelector(arguments[0]);
            if (!e) throw new Error('no element ' + arguments[0]);
            e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
            const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
            const top = document.elementFromPoint(x, y);
            if (!top || !(e.contains(top) || top.contains(e) || (top.control || null) === e))
              throw new Error(arguments[0] + ' is covered by ' + (top ? top.outerHTML.slice(0, 200) : 'nothing'));
            return [x, y];""", selector)
        self.click_at(*place)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 6) -> None:
        """Presses the mouse at one place, moves it to another, and lets go."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        self._call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", buttons=1, clickCount=1)
        for i in range(1, steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, end))
            self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def press(self, key: str, modifiers: int = 0) -> None:
        """A key by its name (`Enter`, `ArrowRight`, `a`) on what has the focus; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self._call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self._call("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        """The size of the window, in pixels; below 600 as on a telephone."""
        self.size = (width, height)
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def console(self) -> list[str]:
        """Console messages and uncaught errors since the last call, errors and warnings only."""
        told = []
        for event in self._take("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            if event["event"] == "Runtime.exceptionThrown":
                fault = event["exceptionDetails"]
                told.append("error: " + (fault.get("exception", {}).get("description") or fault["text"]))
            elif event["event"] == "Log.entryAdded":
                if event["entry"]["level"] in ("error", "warning"):
                    told.append(f"{event['entry']['level']}: {event['entry']['text']} {event['entry'].get('url', '')}")
            elif event["type"] in ("error", "warning", "assert"):
                told.append(f"{event['type']}: " + " ".join(str(a.get("value", a.get("description"))) for a in event["args"]))
        return told

    def requested(self) -> list[str]:
        """Addresses requested since the last call."""
        return [event["request"]["url"] for event in self._take("Network.requestWillBeSent")]

    def screenshot(self, file: Path, whole_page: bool = False) -> None:
        """A PNG of the window, or of all that it would show if it were high enough."""
        clip = {}
        if whole_page:
            height = self.run("return Math.ceil(document.documentElement.scrollHeight)")
            clip = {"clip": {"x": 0, "y": 0, "width": self.size[0], "height": height, "scale": 1}}
        picture = self._call("Page.captureScreenshot", captureBeyondViewport=whole_page, **clip)
        Path(file).write_bytes(base64.b64decode(picture["data"]))


class TestCase(unittest.TestCase):
    """A test with one browser for all of its class, in `self.page`; each test begins on an empty page of usual size."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        required()
        cls.page = cls.enterClassContext(Browser())

    def setUp(self) -> None:
        super().setUp()
        self.page.resize(1366, 768)
        self.page.open("about:blank")
        self.page.console()
        self.page.requested()

    def quiet(self, *allowed: str) -> None:
        """Nothing went to the console, and no address was asked for but local ones and those that begin like `allowed`."""
        self.assertEqual(self.page.console(), [])
        self.assertEqual([url for url in self.page.requested() if not url.startswith((*LOCAL, *allowed))], [])

    def fits(self, what: object = None) -> None:
        """The page is no wider than its window."""
        over = self.page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.assertLessEqual(over, 0, what)
