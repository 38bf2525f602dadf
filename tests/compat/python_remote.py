#!/usr/bin/env python3
"""Does kiste read from an S3 server that others wrote? Compares what it prints of a dataset on disk and of
the same in moto, signed requests included.

    pip install 'moto[s3,server]' boto3
    cargo build --features full
    python tests/compat/python_remote.py target/debug/kiste
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3


def main(kiste):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        compare(kiste, f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait()


def compare(kiste, endpoint):
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }

    def run(*args, code=0):
        done = subprocess.run([kiste, *args], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (args, done)
        return done.stdout if code == 0 else done.stderr

    with tempfile.TemporaryDirectory() as folder:
        run("demo", f"{folder}/demo")
        local = Path(folder, "demo", "digits.msgpack")
        run("index", "--lookup", "--crc", str(local))
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="AKID",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        wait_for(s3)
        s3.create_bucket(Bucket="bucket")
        for file in local.parent.glob("digits.msgpack*"):
            s3.upload_file(str(file), "bucket", f"sets/{file.name}")
        remote = "s3://bucket/sets/digits.msgpack"
        key = run("ls", str(local)).splitlines()[1234]
        for before, after in [
            (["info"], []),
            (["ls"], []),
            (["cat"], []),
            (["head", "-n", "7"], []),
            (["tail", "-n", "7"], []),
            (["get"], [key]),
            (["verify", "--deep"], []),
        ]:
            here = run(*before, str(local), *after)
            there = run(*before, remote, *after)
            # Columns are as wide as the longest name.
            plain = lambda text, name: text.replace(name, "SET").split()
            assert plain(there, remote) == plain(here, str(local)), before
            print("same:", *before)
        message = run("info", "s3://bucket/sets/other.msgpack", code=2)
        assert "there is no such object" in message, message
        message = run("info", "s3://no-such-bucket/digits.msgpack", code=2)
        assert "there is no such object" in message, message
    print("all good")


def wait_for(s3):
    for _ in range(100):
        try:
            return s3.list_buckets()
        except Exception:
            time.sleep(0.1)
    raise SystemExit("the server does not start")


if __name__ == "__main__":
    main(*sys.argv[1:])
