"""A server for one machine that answers as one far away: files by ranges, and lists of files as S3 makes them.

    python server.py FOLDER MILLISECONDS [MEGABYTES A SECOND]

The folders in FOLDER are buckets. It prints its URL.
"""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PART = 1 << 18
DATE = "2026-11-23T00:00:00.000Z"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(with_body=True)

    def do_HEAD(self):
        self.answer(with_body=False)

    def answer(self, with_body):
        time.sleep(self.server.latency)
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        path = (self.server.folder / unquote(url.path).lstrip("/")).resolve()
        if not path.is_relative_to(self.server.folder):
            self.head(404, 0)
        elif "list-type" in query:
            text = listed(path, query.get("prefix", [""])[0]).encode()
            self.head(200, len(text), **{"Content-Type": "application/xml"})
            self.wfile.write(text)
        elif not path.is_file():
            self.head(404, 0)
        else:
            self.file(path, with_body)

    def file(self, path, with_body):
        length = path.stat().st_size
        begin, end = asked(self.headers.get("Range"), length)
        more = {"Accept-Ranges": "bytes", "ETag": f'"{length}"', "Last-Modified": "Mon, 23 Nov 2026 00:00:00 GMT"}
        if self.headers.get("Range"):
            self.head(206, end - begin, **more, **{"Content-Range": f"bytes {begin}-{end - 1}/{length}"})
        else:
            self.head(200, length, **more)
        if not with_body:
            return
        with open(path, "rb") as file:
            while begin < end:
                part = min(PART, end - begin) if self.server.rate else end - begin
                self.server.wait(part)
                self.connection.sendfile(file, begin, part)
                begin += part

    def head(self, status, length, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": length, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def asked(header, length):
    """The bytes that a range names."""
    first, _, last = (header or "bytes=0-").removeprefix("bytes=").partition("-")
    if not first:
        return max(0, length - int(last)), length
    return int(first), min(length, int(last) + 1) if last else length


def listed(bucket, prefix):
    entries = ""
    for path in sorted(bucket.rglob("*")):
        key = path.relative_to(bucket).as_posix()
        if path.is_file() and key.startswith(prefix):
            size = path.stat().st_size
            entries += f"<Contents><Key>{escape(key)}</Key><LastModified>{DATE}</LastModified>"
            entries += f"<ETag>&quot;{size}&quot;</ETag><Size>{size}</Size></Contents>"
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, folder, latency, rate):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.latency, self.rate = folder.resolve(), latency, rate
        self.free, self.lock = time.monotonic(), threading.Lock()

    def wait(self, length):
        """All connections share the rate."""
        if not self.rate:
            return
        with self.lock:
            self.free = max(self.free, time.monotonic()) + length / self.rate
            pause = self.free - time.monotonic()
        time.sleep(max(0, pause))

    def handle_error(self, *_):
        pass  # The client went away.


def main():
    folder, milliseconds, *megabytes = sys.argv[1:]
    server = Server(Path(folder), float(milliseconds) / 1e3, float(megabytes[0]) * 1e6 if megabytes else 0)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
