"""Files to and from a bucket of S3, with its settings from the environment, as boto3 reads them.

    python bucket.py (put FOLDER | delete) s3://BUCKET/PREFIX
"""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import boto3


def main():
    what, *folder, url = sys.argv[1:]
    parts = urlsplit(url)
    bucket, prefix = boto3.resource("s3").Bucket(parts.netloc), parts.path.strip("/")
    if not prefix:
        sys.exit(f"{url}: expected a prefix, so that nothing else is deleted")
    if what == "delete":
        bucket.objects.filter(Prefix=prefix + "/").delete()
        return
    root = Path(folder[0])
    for path in root.rglob("*"):
        if path.is_file():
            bucket.upload_file(str(path), f"{prefix}/{path.relative_to(root).as_posix()}")


if __name__ == "__main__":
    main()
