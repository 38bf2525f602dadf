#!/usr/bin/env python3
"""Another user is the first to make the folders that kiste makes next to an output, or may write to them.

    sudo python3 tests/faults/others.py target/debug/kiste

Runs the command as one user in directories where another one has prepared something, and expects that it
is refused, untouched, and read by nobody. Without root there is only one user: then nothing is checked, and
the last line says so.
"""

import contextlib
import http.server
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading

ME, OTHER, GROUP = 61001, 61002, 61050
SAMPLES = "".join('{"key": "mine-%d"}\n' % n for n in range(40))
THEIRS = "".join('{"key": "theirs-%d"}\n' % n for n in range(40))
# Who may write to the directory that both use: everyone, everyone with the sticky bit, a group.
SHARED = {"open": (0, 0o777), "sticky": (0, 0o1777), "group": (GROUP, 0o2775), "sticky group": (GROUP, 0o3775)}


class Lab:
    def __init__(self, kiste, top):
        self.top, self.failed, self.checks = top, [], 0
        # Where other users can read it.
        self.kiste = os.path.join(top, "kiste")
        shutil.copy(kiste, self.kiste)
        os.chmod(top, 0o755)
        os.chmod(self.kiste, 0o755)

    def run(self, user, args, cwd, umask=0o022, **env):
        """Runs the command as this user, who is in the group too."""
        def become():
            os.setgroups([GROUP])
            os.setgid(user)
            os.setuid(user)
            os.umask(umask)
        environment = {"PATH": os.environ["PATH"], "HOME": cwd, "TMPDIR": cwd, "RAYON_NUM_THREADS": "2", **env}
        done = subprocess.run([self.kiste, *args], cwd=cwd, preexec_fn=become, env=environment,
                              capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def check(self, what, holds, said=""):
        self.checks += 1
        if not holds:
            self.failed.append(what)
            print(f"FAILED: {what}: {said.strip()[-300:]}")

    @contextlib.contextmanager
    def shared(self, kind):
        group, mode = SHARED[kind]
        path = tempfile.mkdtemp(dir=self.top)
        os.chown(path, 0, group)
        os.chmod(path, mode)
        for name, text in (("mine.jsonl", SAMPLES), ("theirs.jsonl", THEIRS)):
            with open(os.path.join(path, name), "w") as file:
                file.write(text)
        # Whoever writes an output here has a place of their own for what is temporary.
        yield path

    @contextlib.contextmanager
    def own(self, user, mode=0o755):
        path = tempfile.mkdtemp(dir=self.top)
        os.chown(path, user, user)
        os.chmod(path, mode)
        with open(os.path.join(path, "mine.jsonl"), "w") as file:
            file.write(SAMPLES)
        yield path


def picture(path):
    """All that is below a path: names, owners, modes and content."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            at = os.path.join(folder, name)
            kept = os.lstat(at)
            content = open(at, "rb").read() if stat.S_ISREG(kept.st_mode) else b""
            found[os.path.relpath(at, path)] = (kept.st_uid, stat.S_IMODE(kept.st_mode), content)
    return found


def give(path, user, mode=0o755):
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            os.lchown(os.path.join(folder, name), user, user)
    os.chown(path, user, user)
    os.chmod(path, mode)


def refused(lab, what, folder, args, cwd, says="belongs to user"):
    before = picture(folder)
    code, said = lab.run(ME, args, cwd)
    lab.check(f"{what}: exit code", code == 2, f"{code} {said}")
    lab.check(f"{what}: message", says in said, said)
    lab.check(f"{what}: untouched", picture(folder) == before, said)
    lab.check(f"{what}: theirs", "theirs-" not in said, said)


def parts(lab, kind):
    with lab.shared(kind) as cwd:
        for part in ("1/2", "2/2"):
            code, said = lab.run(OTHER, ["convert", "theirs.jsonl", "out.msgpack", "--part", part], cwd)
            lab.check(f"parts, {kind}: prepared", code == 0, said)
        folder = os.path.join(cwd, "out.msgpack.parts")
        for args in (["convert", "theirs.jsonl", "out.msgpack", "--part", "1/2"],
                     ["convert", "mine.jsonl", "out.msgpack", "--part", "1/2"],
                     ["commit", "out.msgpack"]):
            refused(lab, f"parts, {kind}, {args[0]}", folder, args, cwd)
        lab.check(f"parts, {kind}: nothing made", not os.path.exists(os.path.join(cwd, "out.msgpack")))
        # The same where everyone may write to it, whoever made it.
        give(folder, ME, 0o777)
        refused(lab, f"parts of all, {kind}", folder, ["commit", "out.msgpack"], cwd, "everyone may write")


def scatter(lab, kind):
    with lab.shared(kind) as cwd:
        code, said = lab.run(ME, ["convert", "mine.jsonl", "in.msgpack"], cwd)
        lab.check(f"scatter, {kind}: prepared", code == 0, said)
        folder = os.path.join(cwd, "out.shards.json.scatter")
        os.mkdir(folder)
        with open(os.path.join(folder, "plan.json"), "w") as file:
            file.write('{"version":1,"parts":2,"dir":"/etc","folder":null}')
        give(folder, OTHER)
        shuffle = ["shuffle", "--seed", "1", "in.msgpack", "out.shards.json", "--part", "1/2", "--pass"]
        for args in ([*shuffle, "1"], [*shuffle, "2"], ["repair", "--undo", "out.shards.json"]):
            refused(lab, f"scatter, {kind}, {args[0]}", folder, args, cwd)


def exports(lab, kind):
    with lab.shared(kind) as cwd:
        lab.run(ME, ["convert", "mine.jsonl", "in.msgpack"], cwd)
        folder = os.path.join(cwd, "out.partial")
        os.makedirs(os.path.join(folder, ".kiste-old"))
        open(os.path.join(folder, ".kiste-lock"), "w").close()
        open(os.path.join(folder, ".kiste-old", "theirs-1"), "w").close()
        give(folder, OTHER, 0o777)
        refused(lab, f"export, {kind}", folder, ["convert", "in.msgpack", "out", "--to", "mds"], cwd)
        lab.check(f"export, {kind}: nothing put there", not os.path.exists(os.path.join(cwd, "out")))


def staging(lab, kind):
    with lab.shared(kind) as cwd:
        folder = os.path.join(cwd, "out.msgpack.partial")
        os.mkdir(folder)
        give(folder, OTHER, 0o777)
        refused(lab, f"partial, {kind}", folder, ["repair", "--undo", "out.msgpack"], cwd)


def demo(lab, kind):
    with lab.shared(kind) as cwd:
        folder = os.path.join(cwd, "kiste-demo")
        os.mkdir(folder)
        give(folder, OTHER, 0o777)
        refused(lab, f"demo, {kind}", folder, ["demo", "kiste-demo"], cwd)


def quarantine(lab, kind):
    with lab.shared(kind) as cwd:
        with open(os.path.join(cwd, "mine.jsonl"), "a") as file:
            file.write("no json\n")
        theirs = os.path.join(cwd, "out.msgpack.quarantine.jsonl")
        lab.run(ME, ["convert", "theirs.jsonl", "out.msgpack"], cwd)
        open(theirs, "w").close()
        os.chown(theirs, OTHER, OTHER)
        os.chmod(theirs, 0o666)
        args = ["convert", "mine.jsonl", "out.msgpack", "--append", "--bad", "quarantine"]
        code, said = lab.run(ME, args, cwd)
        lab.check(f"quarantine, {kind}: refused", code == 2 and os.path.getsize(theirs) == 0, said)


class Objects(http.server.BaseHTTPRequestHandler):
    """One folder over HTTP, with ranges and tags."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        try:
            with open(self.server.folder + self.path, "rb") as file:
                data = file.read()
        except OSError:
            return self.answer(404, b"", {})
        asked = self.headers.get("Range")
        if not asked:
            return self.answer(200, data, {"ETag": '"v1"'})
        first, last = asked.removeprefix("bytes=").split("-")
        start = int(first) if first else max(len(data) - int(last), 0)
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        if start >= end:
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        head = {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}", "ETag": '"v1"'}
        return self.answer(206, data[start:end], head)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Last-Modified": "Mon, 23 Nov 2026 00:00:00 GMT", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def caches(lab):
    with lab.own(ME) as home:
        # More than is fetched to open it, which is not kept.
        with open(os.path.join(home, "mine.jsonl"), "w") as file:
            file.writelines('{"key": "mine-%d", "text": "%s"}\n' % (n, os.urandom(40).hex()) for n in range(4000))
        lab.run(ME, ["convert", "mine.jsonl", "set.msgpack"], home)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects)
        server.folder = home
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/set.msgpack"

        def head(cache):
            return lab.run(ME, ["cat", url], home, KISTE_CACHE=cache, KISTE_CACHE_SIZE="100M")
        for kind in SHARED:
            with lab.shared(kind) as cwd:
                for owner, mode, says in ((OTHER, 0o700, "belongs to user"), (OTHER, 0o777, "belongs to user"),
                                          (ME, 0o777, "everyone may write"), (0, 0o1777, "everyone may write")):
                    cache = tempfile.mkdtemp(dir=cwd)
                    give(cache, owner, mode)
                    code, said = head(cache)
                    what = f"cache of {owner}, {mode:o}, {kind}"
                    lab.check(f"{what}: read without it", code == 0 and "mine-39" in said, said)
                    lab.check(f"{what}: said", says in said, said)
                    lab.check(f"{what}: unused", not os.listdir(cache), said)
                    code, said = lab.run(ME, ["cache", "--clear", cache], home)
                    lab.check(f"{what}: not emptied", code == 2, said)
                link = os.path.join(cwd, "link")
                os.symlink(home, link)
                os.lchown(link, OTHER, OTHER)
                code, said = head(link)
                lab.check(f"cache by a link of another user, {kind}", "the link belongs to user" in said, said)
                # One of our own, in the same place: private.
                cache = os.path.join(cwd, "new")
                code, said = head(cache)
                modes = {mode for _, mode, content in picture(cache).values() if content}
                lab.check(f"new cache, {kind}: used", code == 0 and os.path.isdir(cache) and len(os.listdir(cache)) >= 2, said)
                if not os.path.isdir(cache):
                    continue
                lab.check(f"new cache, {kind}: private", os.stat(cache).st_mode & 0o777 == 0o700)
                segments = [name for name in os.listdir(cache) if name.endswith(".seg")]
                modes = {stat.S_IMODE(os.stat(os.path.join(cache, name)).st_mode) for name in segments}
                lab.check(f"new cache, {kind}: segments", modes == {0o600}, str(modes))
        cache, target = os.path.join(home, "tagged"), os.path.join(home, "created")
        os.mkdir(cache)
        give(cache, ME, 0o700)
        os.symlink(target, os.path.join(cache, "CACHEDIR.TAG"))
        code, said = head(cache)
        lab.check("nothing is written through a link", code == 0 and not os.path.exists(target), said)
        server.shutdown()


def allowed(lab):
    """What belongs to this user, to root or to the owner of the directory is used, whatever the umask."""
    for umask in (0o022, 0o002, 0o000, 0o077):
        for mode in (0o755, 0o775):
            with lab.own(ME, mode) as home:
                for part in ("1/2", "2/2"):
                    args = ["convert", "mine.jsonl", "out.msgpack", "--part", part]
                    code, said = lab.run(ME, args, home, umask)
                    lab.check(f"parts of one's own, umask {umask:o}", code == 0, said)
                code, said = lab.run(ME, ["commit", "out.msgpack"], home, umask)
                lab.check(f"commit of one's own, umask {umask:o}", code == 0, said)
    with lab.own(OTHER, 0o777) as theirs:
        # Who owns the directory can replace all that is in it.
        for part in ("1/2", "2/2"):
            lab.run(OTHER, ["convert", "mine.jsonl", "out.msgpack", "--part", part], theirs)
        code, said = lab.run(ME, ["convert", "mine.jsonl", "out.msgpack", "--part", "1/2"], theirs)
        lab.check("parts of the owner of the directory", "belongs to user" not in said, said)
        code, said = lab.run(0, ["commit", "out.msgpack"], theirs)
        lab.check("root for the owner of the directory", code == 0, said)


def main():
    if os.geteuid() != 0:
        print("skipped: not root, and only root can be two other users")
        return 0
    with tempfile.TemporaryDirectory() as top:
        lab = Lab(sys.argv[1], top)
        for kind in SHARED:
            for play in (parts, scatter, exports, staging, demo, quarantine):
                play(lab, kind)
        caches(lab)
        allowed(lab)
    print(f"{lab.checks} checks, {len(lab.failed)} failed")
    return 1 if lab.failed else 0


if __name__ == "__main__":
    sys.exit(main())
