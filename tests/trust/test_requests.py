"""Mutated requests: whatever is said, the explorer's server answers it or says why not (requests.py). Servers that were
doctored are found out."""

import contextlib
import os
import pathlib
import stat
import tempfile
import threading
import time
import unittest
import unittest.mock

import requests
from request_mutants import HONEST, draw, get
from orrery_serve import folder, site, web, wire

COUNT = int(os.environ.get("ORRERY_REQUESTS", "8000"))
SEED = 1
TRIES = 6000  # inputs in which a doctored server must be found out

# Inputs that went wrong once, by what is wrong with them.
KNOWN = {
    "a manifest whose inputs are no list": get("/api/config?from=run:odd"),
    "a manifest with a path longer than paths can be": get("/api/config?from=run:odder"),
    "a space that is none in a header": get("/report/s.sqlite").replace(b"Host: ", b"Host: \xa0"),
    "a pipe in the place of a store": get("/api/study?path=pipe.sqlite"),
    "a pipe that is no store by its name": get("/api/study?path=a/pipe.csv"),
    "a pipe in the place of a store's log": get("/api/study?path=piped.sqlite"),
    "a pipe among the files to begin with": get("/api/starts"),
}


class RequestsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="orrery-requests-")
        self.addCleanup(scratch.cleanup)
        # The bench puts its own in the place of these.
        for of, name in ((requests.reports, "made"), (requests.reports, "plotly"), (requests.stores, "written_now")):
            patch = unittest.mock.patch.object(of, name)
            patch.start()
            self.addCleanup(patch.stop)
        self.bench = requests.Bench(pathlib.Path(scratch.name))

    def test_requests(self):
        begin = time.process_time()
        found = requests.hunt(self.bench, range(COUNT), SEED)
        print(f"\n{COUNT} inputs of seed {SEED}: {requests.summary(self.bench, found, time.process_time() - begin)}")
        self.assertEqual([], found, "\n".join(one.shown() for one in found))
        # All that a server may answer is met, so that what is behind a refusal is tried too.
        self.assertLessEqual({200, 400, 403, 404, 405, 411, 413, 414, 415, 422, 431}, set(self.bench.statuses))

    def test_known(self):
        for name, said in KNOWN.items():
            with self.subTest(name):
                self.assertEqual("", self.bench.fault(0, said, []))

    def test_honest_ones_are_answered(self):
        """What is mutated is right before: each gets its page, its data, or the reason why that run has none."""
        for said in HONEST:
            self.assertEqual("", self.bench.fault(0, said, []), said)
            told = self.bench.given(0, said, [])
            odd = any(word in said for word in (b"odd", b"pipe", b"/report/", b"s.sqlite", b"/api/cancel", b"jobs?id=",
                                                b"/job/1"))
            self.assertIn(told.answers[0][0].status, (200, 404, 422) if odd else (200,), said)

    def test_the_same_seed_gives_the_same_inputs(self):
        one, other = ([draw(3, n)[0] for n in range(200)] for _ in range(2))
        self.assertEqual(one, other)
        self.assertGreater(len(set(one)), 190)

    # -- doctored servers are found out -----------------------------------------------------------------------------

    def find(self, what: str, *patches, most: int = 20, shrink_seconds: float = 0.1) -> bytes:
        """The smallest input by which a doctored server is found out."""
        found = []
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            for begin in range(0, TRIES, 300):
                found += requests.hunt(self.bench, range(begin, begin + 300), SEED, shrink_seconds, most=most)
                for one in found:
                    if what in one.fault:
                        return one.smallest
        self.fail([one.fault for one in found] or "found nothing")

    def doctored(self, of: object, name: str, make) -> object:
        return unittest.mock.patch.object(of, name, make)

    def test_a_page_that_breaks(self):
        def files(of, request):
            return {"files": of.folder.files(request.query["path"])}  # no path, no page

        for desk in self.bench.desks:
            desk.site.data["files"] = lambda request, of=desk.site: files(of, request)
        smallest = self.find("KeyError", most=1, shrink_seconds=3)
        self.assertIn(b"/api/files", smallest)
        self.assertLess(len(smallest), 120)  # shrunk: an honest one has 400 bytes

    def test_a_name_that_leads_out(self):
        def path(of, name):
            found = of.root / name
            if not os.path.exists(found):
                raise web.Refused(404, "none")
            return found

        def opened(of, name):
            try:
                descriptor = os.open(of.root / name, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                raise web.Refused(404, "none") from None
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise web.Refused(404, "none")
            return descriptor, os.fstat(descriptor)

        self.find("outside the folder", self.doctored(folder.Folder, "path", path), self.doctored(folder.Folder, "open",
                                                                                                  opened))

    def test_a_program_that_is_started(self):
        def faults(of, config):
            import subprocess
            subprocess.run(["true"], check=False)
            return []

        self.find("subprocess.Popen", self.doctored(requests.Command, "faults", faults), most=1)

    def test_a_length_that_is_guessed(self):
        def body(headers):
            try:
                return int(headers["content-length"]), False
            except (KeyError, ValueError):
                return None, False

        self.find("lets through a request with Content-Length", self.doctored(wire, "body", body))

    def test_half_ends_of_lines(self):
        header = requests.re.compile(wire.HEADER.pattern.replace(rb"\x0a-", rb"\x0e-"))
        self.find("two ways", self.doctored(wire, "stray", lambda *_: False), self.doctored(wire, "HEADER", header))

    def test_an_end_that_is_missed_between_two_pieces(self):
        good = wire.end_of_head
        self.find("cut otherwise", self.doctored(wire, "end_of_head", lambda heard, seen: good(heard, seen + 3 if seen
                                                                                               else 0)))

    def test_a_head_without_end(self):
        self.find("keeps more", self.doctored(wire, "LARGEST_HEAD", 1 << 30))

    def test_a_page_that_never_comes(self):
        def failure(of, status, reason):
            while status == 405:
                pass
            return b""

        self.find("hangs", self.doctored(site.Site, "failure", failure), most=1)

    def test_a_name_in_a_header(self):
        def refusal(of, path, refused):
            return web.Answer(b"", status=refused.status, headers={"X-Path": path + refused.reason})

        good = site.Site.get

        def get(of, request):
            answer = good(of, request)
            answer.headers["X-Query"] = "".join(request.query.values())
            return answer

        self.find("a broken head", self.doctored(site.Site, "get", get), self.doctored(web.Desk, "refusal", refusal))

    def test_memory_that_is_kept(self):
        kept = []
        good = web.Talk.take

        def take(of, data):
            kept.append(bytearray(1 << 18))
            good(of, data)

        with unittest.mock.patch.object(requests, "WARM", 100):
            self.find("memory grows", self.doctored(web.Talk, "take", take), most=1)

    def test_one_that_waits_for_ever(self):
        lock = threading.Lock()
        lock.acquire()

        def failure(of, status, reason):
            if status == 405:
                lock.acquire()
            return b""

        with unittest.mock.patch.object(requests, "WAITS", 0.3):
            self.find("hangs", self.doctored(site.Site, "failure", failure), most=1)


if __name__ == "__main__":
    unittest.main()
