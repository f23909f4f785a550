"""A headless Chromium, driven through chromedriver's wire protocol with the standard library alone."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


def available() -> bool:
    return CHROMIUM is not None and DRIVER is not None


class Browser:
    """`with Browser() as b: b.open(url)`; console messages and requested addresses are recorded from the start."""

    def __init__(self, width: int = 1366, height: int = 768) -> None:
        self.size = (width, height)

    def __enter__(self) -> Browser:
        self.profile = tempfile.TemporaryDirectory(prefix="orrery-report-chromium-")
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        self.session = ""
        try:
            self.base = f"http://127.0.0.1:{self._port()}"
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.session:
            try:
                self._call("DELETE", "")
            except (OSError, RuntimeError):
                pass
        self.driver.terminate()
        self.driver.wait(timeout=20)
        self.driver.stdout.close()
        self.profile.cleanup()

    def _port(self) -> int:
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                return int(line.strip().rstrip(".").rsplit(" ", 1)[1])
        raise RuntimeError("chromedriver ended before it was ready")

    def _start(self) -> None:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     f"--window-size={self.size[0]},{self.size[1]}", f"--user-data-dir={self.profile.name}"]
        wanted = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                  "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments}}
        answer = self._request("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + answer["sessionId"]
        # The browser's own start page requests its parts; forget them.
        self.open("about:blank")
        self.requested()

    def _request(self, method: str, path: str, body: dict | None = None) -> object:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def _call(self, method: str, path: str, body: dict | None = None) -> object:
        return self._request(method, self.session + path, body)

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> object:
        """What the function body `script` returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, *arguments: object, limit_s: float = 60.0) -> None:
        """Returns once `script` returns true; TimeoutError if it does not."""
        end = time.monotonic() + limit_s
        while not self.run(script, *arguments):
            if time.monotonic() > end:
                raise TimeoutError(script)
            time.sleep(0.05)

    def console(self) -> list[str]:
        """Console messages since the last call, errors and warnings only."""
        return [f"{entry['level']}: {entry['message']}" for entry in self._call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def requested(self) -> list[str]:
        """Addresses requested since the last call."""
        events = [json.loads(e["message"])["message"] for e in self._call("POST", "/se/log", {"type": "performance"})]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def command(self, name: str, **parameters: object) -> dict:
        """A DevTools command."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def screenshot(self, file: Path, whole_page: bool = False) -> None:
        picture = self.command("Page.captureScreenshot", captureBeyondViewport=whole_page, **(
            {"clip": {"x": 0, "y": 0, "width": self.size[0], "scale": 1,
                      "height": self.run("return document.documentElement.scrollHeight")}} if whole_page else {}))
        file.write_bytes(base64.b64decode(picture["data"]))
