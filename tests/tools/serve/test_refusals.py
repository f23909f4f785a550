"""What `orrery serve` must refuse: other hosts, other pages, other users' ways in, names that lead out of the folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from support import Served, ServedTest, made_up, orrery

from orrery_serve import cli, folder as folders, guard  # noqa: E402
from orrery_serve.errors import Refused, Unusable  # noqa: E402

SECRET = "what nobody may read"


class CommandLine(unittest.TestCase):
    def fault(self, *arguments: object) -> str:
        done = orrery("serve", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_refuses_hosts_beyond_loopback(self):
        for host in ("0.0.0.0", "::", "192.0.2.7"):
            self.assertIn("--open-beyond-loopback", self.fault(".", "--host", host, "--port", "0"))

    def test_refuses_what_is_no_folder_and_no_host(self):
        self.assertIn("expected a folder", self.fault("/nonexistent/folder"))
        self.assertIn("found none", self.fault(".", "--host", "no.such.host.invalid", "--port", "0"))

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertIn(f"port {port} of 127.0.0.1 is in use", self.fault(".", "--port", port))

    def test_loopback_by_name_is_allowed(self):
        self.assertTrue(set(cli.addresses("localhost", False)) <= {"127.0.0.1", "::1"})
        with self.assertRaises(Unusable):
            cli.addresses("0.0.0.0", False)
        self.assertEqual(cli.addresses("0.0.0.0", True), ["0.0.0.0"])

    def test_ends_on_signals_at_once(self):
        with tempfile.TemporaryDirectory() as place:
            for number in (signal.SIGINT, signal.SIGTERM):
                server = Served(Path(place))
                self.assertEqual(server.ask("/")[0], 200)
                self.assertEqual(server.end(number)[0], 0)
            self.assertEqual(os.listdir(place), [])


class Requests(ServedTest):
    @classmethod
    def fill(cls, folder: Path) -> None:
        made_up(folder / "a")
        (folder / ".hidden").write_text(SECRET)
        (cls.top / "outside.json").write_text(SECRET)
        made_up(cls.top / "outside")
        (folder / "a" / "link.json").symlink_to(cls.top / "outside.json")
        (folder / "a" / "far.json").symlink_to("/etc/hostname")
        (folder / "linked").symlink_to(cls.top / "outside")
        (folder / "loop").symlink_to(folder)
        (cls.top / "served-twin").mkdir()
        (cls.top / "served-twin" / "x.json").write_text(SECRET)
        os.mkfifo(folder / "a" / "pipe.csv")
        made_up(folder / "plain")
        made_up(folder / "pulled")  # parts of a run that lie elsewhere
        (folder / "pulled" / "requests.csv").symlink_to(cls.top / "outside.json")
        (folder / "drawn").mkdir()
        for name in ("manifest.json", "summary.json"):
            (folder / "drawn" / name).symlink_to(cls.top / "outside" / name)

    def status(self, *arguments, **headers) -> int:
        return self.server.ask(*arguments, **headers)[0]

    def test_paths_do_not_lead_out(self):
        names = ["../outside.json", "..%2foutside.json", "%2e%2e/outside.json", "%2e%2e%2foutside.json", "a/../../outside.json",
                 "a/%2e%2e/%2e%2e/outside.json", "%252e%252e/outside.json", "..%c0%afoutside.json", "/etc/passwd", "%2fetc%2fpasswd",
                 "//etc/passwd", "a/link.json", "a/far.json", "linked/summary.json", "a/summary.json%00", "%00", "a%00/summary.json",
                 "..%5coutside.json", ".hidden", "a/./summary.json", "a//summary.json", "../served-twin/x.json", "a/pipe.csv", "a",
                 "", "a/summary.json/", "a/%0asummary.json", "x" * 3000, "..;/outside.json", "a/..%00/../outside.json"]
        for area in ("files", "run", "report", "study"):
            for name in names:
                if area in ("run", "report") and name == "a":
                    continue
                status, _, body = self.server.ask(f"/{area}/{name}")
                with self.subTest(area=area, name=name[:60]):
                    self.assertIn(status, (400, 404))
                    self.assertNotIn(SECRET.encode(), body)
        for name in ("../outside", "/etc", "linked", "..%2Foutside", "a%00", ".hidden"):
            for query in ("files?path=", "study?path=", "compare?run=a&run=", "config?from=run:", "config?from=file:",
                          "config?from=point:"):
                status, _, body = self.server.ask(f"/api/{query}{name}")
                with self.subTest(query=query, name=name):
                    self.assertIn(status, (400, 404))
                    self.assertNotIn(SECRET.encode(), body)

    def test_reports_read_no_links_and_no_pipes(self):
        for name, told in (("a", b"far.json: expected a plain file"), ("pulled", b"requests.csv: expected a plain file")):
            status, _, body = self.server.ask(f"/report/{name}")
            self.assertEqual((status, told in body, SECRET.encode() in body), (200, True, False), name)
        self.assertEqual(self.rows()["drawn"]["reason"], "manifest.json: no plain file")
        for query in ("compare?run=plain&run=drawn", "config?from=run:drawn"):
            self.assertEqual(self.server.ask("/api/" + query)[0], 422, query)
        self.assertNotIn(b"cannot be shown", self.server.ask("/report/plain")[2])

    def test_names_that_are_right_are_served(self):
        status, headers, body = self.server.ask("/files/a/summary.json")
        self.assertEqual((status, json.loads(body)["status"]), (200, "ok"))
        self.assertTrue(headers["Content-Disposition"].startswith("attachment"))
        self.assertEqual(self.server.ask("/files/a/summary.json?view")[1]["Content-Type"], "text/plain; charset=utf-8")
        self.assertEqual(self.status("/files/%61/summary%2ejson"), 200)
        self.assertNotIn("linked", self.rows())

    def test_host_header(self):
        port = self.server.port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            self.assertEqual(self.status("/", host=host), 200, host)
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", "", f"127.0.0.1.evil.example:{port}",
                     f"192.0.2.7:{port}", "localhost", f"localhost.:{port}", f"user@127.0.0.1:{port}",
                     f"\xa0127.0.0.1:{port}", f"127.0.0.1:{port}\x85"):
            for target in ("/", "/api/index?since=0", "/files/a/summary.json", "/static/plotly.js"):
                self.assertEqual(self.status(target, host=host), 403, (host, target))
        self.assertEqual(self.status("/", Host="127.0.0.1"), 400)  # two of them

    def test_other_pages_may_not_ask_for_data(self):
        ours = f"http://127.0.0.1:{self.server.port}"
        for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://evil.example"},
                        {"Origin": "null"}, {"Origin": ours + "0"}, {"Origin": ours.replace("http", "https")}):
            self.assertEqual(self.status("/api/index?since=0", **headers), 403, headers)
        self.assertEqual(self.status("/api/index?since=0", Sec_Fetch_Site="same-origin", Origin=ours), 200)

    def test_changes_need_the_token_and_a_page_of_ours(self):
        good = {"Content_Type": "application/json"}
        body = json.dumps({"config": {}}).encode()
        for target in ("/api/validate", "/api/jobs", "/api/cancel"):
            for headers in ({}, {"X_Orrery_Token": ""}, {"X_Orrery_Token": "guess"}, {"Cookie": "orrery=guess"}):
                self.assertEqual(self.status(target, "POST", body, **good, **headers), 403, (target, headers))
        status, answer = self.server.post("validate", {"config": {}}, Origin="http://evil.example")
        self.assertEqual((status, answer["error"]), (403, "the request comes from another site's page"))
        self.assertEqual(self.server.post("validate", {"config": {}}, Sec_Fetch_Site="cross-site")[0], 403)
        self.assertEqual(self.server.post("validate", {"config": {}})[0], 200)

    def test_forms_of_other_pages_cannot_speak_json(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            self.assertEqual(self.server.post("validate", {"config": {}}, Content_Type=kind)[0], 415)

    def test_bodies_are_bounded(self):
        token = {"Content_Type": "application/json", "X_Orrery_Token": self.server.post("validate", {"config": {}}) and self.server.token}
        self.assertEqual(self.status("/api/validate", "POST", b"", Content_Length="99999999", **token), 413)
        self.assertEqual(self.status("/api/validate", "POST", b"", Content_Length="9" * 18, **token), 413)
        self.assertEqual(self.status("/api/validate", "POST", b"", Content_Length="-1", **token), 400)
        self.assertEqual(self.status("/api/validate", "POST", b"0\r\n\r\n", Transfer_Encoding="chunked", **token), 411)
        for body in (b"[]", b"{", b"\xff", b"[" * 100_000):
            self.assertEqual(self.status("/api/validate", "POST", body, **token), 400, body[:10])
        self.assertEqual(self.server.post("validate", {"config": []})[0], 400)

    def test_only_get_and_post(self):
        for method in ("PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "PROPFIND"):
            status, headers, _ = self.server.ask("/", method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, POST"), method)
        self.assertEqual(self.status("/", "POST", b"{}"), 403)
        self.assertEqual(self.server.post("nothing", {})[0], 404)
        for target in ("/nothing", "/api/nothing", "/static/../cli.py", "/static/cli.py", "/job/1", "/job/x", "/api/jobs?id=9", "*"):
            self.assertIn(self.status(target), (400, 404), target)

    def test_headers_keep_pages_apart(self):
        for target in ("/", "/run/a", "/api/index?since=0", "/files/a/summary.json", "/static/home.js", "/nothing", "/new"):
            _, headers, _ = self.server.ask(target)
            policy = headers["Content-Security-Policy"]
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff", target)
            self.assertTrue(policy.startswith("default-src 'none'"), target)
            self.assertNotIn("unsafe", policy, target)
            self.assertNotIn("Access-Control-Allow-Origin", headers)
        self.assertIn("sandbox allow-scripts", self.server.ask("/report/plain")[1]["Content-Security-Policy"])
        self.assertNotIn("allow-same-origin", self.server.ask("/report/plain")[1]["Content-Security-Policy"])

    def test_texts_of_a_folder_are_no_html(self):
        name = '<img src=x onerror=alert(1)>"&'
        made_up(self.folder / name)
        for target in ("/run/", "/report/", "/new?from=run:"):
            _, _, body = self.server.ask(target + "".join(f"%{b:02x}" for b in name.encode()))
            self.assertNotIn(b"<img src=x", body, target)

    def test_listens_on_loopback_alone(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # sends nothing: tells our address towards other machines
            except OSError:
                self.skipTest("this machine has no address but loopback")
            ours = probe.getsockname()[0]
        if ours.startswith("127."):
            self.skipTest("this machine has no address but loopback")
        with self.assertRaises(OSError):
            socket.create_connection((ours, self.server.port), timeout=2).close()


class Beyond(ServedTest):
    flags = ("--host", "127.0.0.1", "--open-beyond-loopback")

    def test_all_needs_the_token(self):
        token = self.server.told["url"].partition("?token=")[2]
        self.assertGreater(len(token), 20)
        for target in ("/", "/api/index?since=0", "/?token=guess"):
            self.assertEqual(self.server.ask(target)[0], 403, target)
        status, headers, _ = self.server.ask("/?token=" + token)
        self.assertEqual(status, 200)
        cookie = headers["Set-Cookie"]
        self.assertIn("HttpOnly; SameSite=Strict", cookie)
        self.assertEqual(self.server.ask("/api/index?since=0", Cookie=cookie.partition(";")[0])[0], 200)
        self.assertEqual(self.server.ask("/api/validate", "POST", b"{}", Content_Type="application/json", X_Orrery_Token=token)[0], 403)


class ReadOnly(ServedTest):
    flags = ("--read-only",)

    def test_nothing_can_be_started(self):
        self.assertEqual(self.server.ask("/")[0], 200)
        self.assertEqual(self.server.ask("/new")[0], 403)
        self.assertEqual(self.server.post("jobs", {"name": "x", "config": {}})[0], 403)
        self.assertEqual(os.listdir(self.folder), [])


class Parts(unittest.TestCase):
    def test_owner_of_a_connection(self):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            self.assertEqual(guard.owner(client.getsockname(), server.getsockname()), os.getuid())
            stranger = guard.Guard(server.getsockname()[1], ())
            stranger.peer(server.getsockname(), client.getsockname())
            with unittest.mock.patch("os.getuid", return_value=os.getuid() + 1), \
                    unittest.mock.patch.object(guard, "owner", return_value=os.getuid() + 5):
                self.assertRaises(Refused, stranger.peer, server.getsockname(), client.getsockname())
        # 127.0.0.1:8080 as the kernel writes it: bytes turned round, 8080 = 0x1F90.
        self.assertEqual(guard.hexadecimal(("127.0.0.1", 8080)), "0100007F:1F90")
        self.assertEqual(guard.hexadecimal(("::1", 80)), "00000000000000000000000001000000:0050")

    def test_a_file_exchanged_for_a_link_is_still_refused(self):
        with tempfile.TemporaryDirectory() as place:
            inside = Path(place) / "in"
            inside.mkdir()
            (inside / "x").symlink_to("/etc/hostname")
            served = folders.Folder(inside)
            self.assertRaises(Refused, served.open, "x")
            self.assertRaises(Refused, served.path, "x")


if __name__ == "__main__":
    unittest.main()
