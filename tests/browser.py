"""Headless Chromium, driven over a pipe by its DevTools protocol: pages of any width, light or dark, printed, and what they say.

    with Browser() as b:
        b.show("page.html", 390, mobile=True)
        b.evaluate("document.title")        # waits for promises
        b.faults                            # lines of the console, exceptions, files that were not found
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 150


def find():
    """The program, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _pipe():
    """Both ends, with numbers that are not 3 or 4."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in low)
    for fd in low:
        os.close(fd)
    return high


class Browser:
    def __init__(self):
        self.faults, self._rest, self._number, self._events = [], b"", 0, []
        self._folder = tempfile.mkdtemp(prefix="browser-")
        # It reads commands from file 3 and writes to file 4, each ended by a NUL.
        theirs, self._to, self._from, answers = _pipe() + _pipe()
        self._log = open(f"{self._folder}/log", "w+")
        self._job = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs} 4>&{answers} {theirs}<&- {answers}>&-', find(), "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self._folder}/profile", "about:blank"],
            pass_fds=(theirs, answers), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        os.close(theirs)
        os.close(answers)
        self._session = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self._ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._to)  # it ends with its pipe
        os.close(self._from)
        try:
            self._job.wait(20)
        except subprocess.TimeoutExpired:
            self._job.kill()
            self._job.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _receive(self, until):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(until - time.monotonic(), 0))
            more = os.read(self._from, 1 << 20) if ready else b""
            if not more:
                self._log.seek(0)
                raise AssertionError(f"Chromium {'ended' if ready else 'does not answer'}: {self._log.read()[-2000:]}")
            self._rest += more
        line, self._rest = self._rest.split(b"\0", 1)
        return json.loads(line)

    def _take(self, message):
        method, p = message["method"], message.get("params", {})
        self._events.append(method)
        if method == "Runtime.consoleAPICalled":
            self.faults.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Runtime.exceptionThrown":
            self.faults.append(str(p["exceptionDetails"].get("exception", {}).get("description", p["exceptionDetails"]["text"])))
        elif method == "Log.entryAdded":
            self.faults.append(f"{p['entry']['level']}: {p['entry']['text']} {p['entry'].get('url', '')}")

    def _ask(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self._receive(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "method" in answer:
                self._take(answer)

    def show(self, page, width, height=900, mobile=False, dark=False, print_=False):
        """Loads a file or an address in a window of so many CSS pixels."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self._ask("Emulation.setEmulatedMedia", media="print" if print_ else "",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._events.clear()
        self._ask("Page.navigate", url=page if ":" in page else f"file://{os.path.abspath(page)}")
        until = time.monotonic() + PATIENCE_S
        while "Page.loadEventFired" not in self._events:
            message = self._receive(until)
            if "method" in message:
                self._take(message)

    def evaluate(self, expression):
        """Value of a JavaScript expression."""
        r = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"]
        return r["result"].get("value")

    def choose(self, selector, path):
        """Puts a file into an <input type=file>."""
        root = self._ask("DOM.getDocument")["root"]["nodeId"]
        node = self._ask("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self._ask("DOM.setFileInputFiles", nodeId=node, files=[os.path.abspath(path)])

    def _save(self, path, data):
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def picture(self, path, selector=None):
        """A PNG of the whole page, or of an element."""
        box = self.evaluate(f"(() => {{ const r = document.querySelector({json.dumps(selector or 'html')}).getBoundingClientRect();"
                            "return [r.left + scrollX, r.top + scrollY, r.width, r.height]; })()")
        clip = {**dict(zip(("x", "y", "width", "height"), box)), "scale": 1}
        self._save(path, self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"])

    def pdf(self, path):
        self._save(path, self._ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])
