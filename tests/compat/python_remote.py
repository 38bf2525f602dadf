#!/usr/bin/env python3
"""Does kiste read from an S3 server that others wrote, and write to it? Compares what it prints of a dataset
on disk and of the same in moto, and what it writes to both, signed requests included.

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
        writes(run, s3, local, folder)
        message = run("info", "s3://bucket/sets/other.msgpack", code=2)
        assert "there is no such object" in message, message
        message = run("info", "s3://no-such-bucket/digits.msgpack", code=2)
        assert "there is no such object" in message, message
    print("all good")


def writes(run, s3, local, folder):
    """The same bytes in the store as on disk, by one PUT and in parts."""
    lines = Path(folder, "large.jsonl")
    text = "x" * 100_000
    with lines.open("w") as out:
        out.writelines(f'{{"key": "{i}", "text": "{text}{i}"}}\n' for i in range(300))
    s3.upload_file(str(lines), "bucket", "raw/large.jsonl")
    for source, options in [(str(local), ["--lookup"]), ("s3://bucket/raw/large.jsonl", ["--crc"])]:
        here, there = Path(folder, "here", "new.msgpack"), "s3://bucket/new/new.msgpack"
        run("convert", source, str(here), "--force", *options)
        run("convert", source, there, "--force", *options)
        found = s3.list_objects_v2(Bucket="bucket", Prefix="new/")["Contents"]
        names = sorted(path.name for path in here.parent.iterdir())
        assert sorted(item["Key"].removeprefix("new/") for item in found) == names, found
        for name in names:
            body = s3.get_object(Bucket="bucket", Key=f"new/{name}")["Body"].read()
            assert body == (here.parent / name).read_bytes(), name
        run("verify", "--deep", there)
        message = run("convert", source, there, *options, code=2)
        assert "exists already" in message, message
        assert not s3.list_multipart_uploads(Bucket="bucket").get("Uploads")
        print("same: convert", *options)
    # The place of a writer that died.
    s3.put_object(Bucket="bucket", Key="dead/new.msgpack.partial", Body=b"{}")
    message = run("convert", str(local), "s3://bucket/dead/new.msgpack", code=2)
    assert "a writer is at work on this dataset, or died" in message, message
    run("repair", "s3://bucket/dead/new.msgpack")
    run("convert", str(local), "s3://bucket/dead/new.msgpack")
    print("same: repair")


def wait_for(s3):
    for _ in range(100):
        try:
            return s3.list_buckets()
        except Exception:
            time.sleep(0.1)
    raise SystemExit("the server does not start")


if __name__ == "__main__":
    main(*sys.argv[1:])
