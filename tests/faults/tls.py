#!/usr/bin/env python3
"""Servers with TLS: one that leads from https:// to http://, and certificates that prove nothing.

    python3 tests/faults/tls.py target/debug/kiste

Serves a dataset from this machine over real TLS, with certificates made here by `openssl`, and expects that
it is read where the certificate is good, and refused in one line, at the first request, where it is not. A
redirect to http:// must reach no server.
"""

import contextlib
import http.server
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import warnings

# A server with an old version of TLS is made on purpose.
warnings.filterwarnings("ignore", category=DeprecationWarning)

SAMPLES = "".join('{"key": "k-%d", "text": "%s"}\n' % (n, "x" * n) for n in range(40))


class Certificates:
    """An authority of our own, and what it signed."""

    def __init__(self, top):
        self.top = top
        self.authority = self.signed_by_itself("authority", "/CN=authority of a test")
        self.good = self.signed("good", "IP:127.0.0.1", "-days", "2")
        self.other_name = self.signed("other-name", "DNS:elsewhere.example", "-days", "2")
        self.expired = self.signed("expired", "IP:127.0.0.1", "-days", "-1")
        self.unknown = self.signed_by_itself("unknown", "/CN=127.0.0.1")

    def file(self, name):
        return os.path.join(self.top, name)

    def openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def signed_by_itself(self, name, subject):
        key, pem = self.file(name + ".key"), self.file(name + ".pem")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject,
                     "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem)
        return pem, key

    def signed(self, name, alternative, *validity):
        key, asked, pem, more = (self.file(name + end) for end in (".key", ".csr", ".pem", ".ext"))
        with open(more, "w") as file:
            file.write(f"subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n")
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", asked)
        self.openssl("x509", "-req", "-in", asked, "-CA", self.authority[0], "-CAkey", self.authority[1],
                     "-CAcreateserial", "-extfile", more, *validity, "-out", pem)
        return pem, key


class Handler(http.server.BaseHTTPRequestHandler):
    """Files with ranges, as a server of datasets answers, or a redirect."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        server = self.server
        server.asked.append(self.path)
        if server.leads_to:
            self.send_response(302)
            self.send_header("Location", server.leads_to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path = os.path.join(server.folder, self.path.lstrip("/"))
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with open(path, "rb") as file:
            data = file.read()
        first, last, status = 0, len(data) - 1, 200
        asked = self.headers.get("Range")
        if asked and data:
            low, high = asked.removeprefix("bytes=").split("-")
            first = int(low) if low else max(len(data) - int(high), 0)
            last = min(int(high), last) if low and high else last
            status = 206
        body = data[first:last + 1]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{len(data)}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Counts handshakes too: a retry may fail before it asks for anything."""

    def __init__(self, folder, certificate=None, leads_to=None, newest=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.leads_to, self.asked, self.met = folder, leads_to, [], 0
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
            if newest:
                self.context.set_ciphers("ALL:@SECLEVEL=0")
                self.context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
                self.context.maximum_version = newest
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server_port}"

    def get_request(self):
        plain, address = super().get_request()
        self.met += 1
        if self.context:
            plain = self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        return plain, address

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def serving(*args, **named):
    server = Server(*args, **named)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Lab:
    def __init__(self, kiste, top):
        self.kiste, self.top, self.checks, self.failed = os.path.abspath(kiste), top, 0, []
        self.certificates = Certificates(top)
        self.folder = os.path.join(top, "served")
        os.mkdir(self.folder)
        with open(os.path.join(top, "a.jsonl"), "w") as file:
            file.write(SAMPLES)
        made = self.run(["convert", os.path.join(top, "a.jsonl"), os.path.join(self.folder, "a.msgpack"), "-q"])
        assert made[0] == 0, made

    def run(self, args):
        environment = {"PATH": os.environ["PATH"], "HOME": self.top, "TMPDIR": self.top,
                       "SSL_CERT_FILE": self.certificates.authority[0]}
        done = subprocess.run([self.kiste, *args], cwd=self.top, env=environment, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def check(self, what, holds, said=""):
        self.checks += 1
        if not holds:
            self.failed.append(what)
            print(f"FAILED: {what}: {said}")

    def reads(self, what, url):
        for args in (["get", url + "/a.msgpack", "k-7"], ["info", url + "/a.msgpack"], ["verify", url + "/a.msgpack"]):
            code, out, err = self.run(args)
            self.check(f"{what}: {args[0]} reads", code == 0 and out, f"exit {code}, {err[-300:]}")

    def refuses(self, what, server, *words):
        """One line that says why, after few connections: nothing is tried again that would fail again."""
        url = server.url + "/a.msgpack"
        for args in (["get", url, "k-7"], ["info", url], ["verify", url], ["convert", url, "copy.tar"]):
            server.met = 0
            code, out, err = self.run(args)
            told = all(word in err for word in words)
            self.check(f"{what}: {args[0]} is refused", code not in (0, 101) and code > 0, f"exit {code}, {out}{err}")
            self.check(f"{what}: {args[0]} says why", told, err)
            # Side files are asked for together.
            self.check(f"{what}: {args[0]} asks once", server.met <= 8, f"{server.met} connections")
            self.check(f"{what}: {args[0]} writes nothing", not os.path.exists(os.path.join(self.top, "copy.tar")))


def main(kiste):
    with tempfile.TemporaryDirectory() as top:
        lab = Lab(kiste, top)
        good, folder = lab.certificates.good, lab.folder
        with serving(folder, good) as server:
            lab.reads("a good certificate", server.url)
            with serving(folder, good, leads_to=server.url) as redirect:
                lab.reads("https to https", redirect.url)
        with serving(folder) as plain:
            lab.reads("http", plain.url)
            with serving(folder, leads_to=plain.url) as redirect:
                lab.reads("http to http", redirect.url)
            plain.asked.clear()
            with serving(folder, good, leads_to=plain.url) as redirect:
                lab.refuses("https to http", redirect, "https://", "redirect to http://")
                lab.check("https to http: nobody was asked in the open", not plain.asked, str(plain.asked))
                # Two steps: the second one leaves.
                with serving(folder, good, leads_to=redirect.url) as first:
                    lab.refuses("https to https to http", first, "https://", "redirect to http://")
                lab.check("two steps: nobody was asked in the open", not plain.asked, str(plain.asked))
        for what, certificate in (("a certificate of nobody known", lab.certificates.unknown),
                                  ("another server's certificate", lab.certificates.other_name),
                                  ("an expired certificate", lab.certificates.expired)):
            with serving(folder, certificate) as server:
                lab.refuses(what, server, "certificate")
                lab.check(f"{what}: nothing was asked for", not server.asked, str(server.asked))
        with serving(folder) as plain:
            plain.url = plain.url.replace("http://", "https://")
            lab.refuses("no TLS at all", plain)
        with serving(folder, good, newest=ssl.TLSVersion.TLSv1) as server:
            lab.refuses("TLS 1.0", server)
    print(f"{lab.checks} checks, {len(lab.failed)} failed")
    return 1 if lab.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "target/debug/kiste"))
