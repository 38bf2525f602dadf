"""The command `kiste` that the wheel brings: it is as the program that `cargo install` builds."""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import pykiste as ki

KISTE = [sys.executable, "-m", "pykiste"]
unix = pytest.mark.skipif(os.name != "posix", reason="as Unix has it")


def kiste(*arguments, **options):
    return subprocess.run([*KISTE, *map(os.fspath, arguments)], capture_output=True, **options)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("command") / "words.msgpack"
    with ki.Writer(path) as writer:
        for number in range(50_000):
            writer.write({"key": f"{number:05}", "word": "crate"})
    return path


def test_exit_codes_say_yes_no_and_wrong(words):
    assert kiste("get", words, "00001", "--field", "word").stdout == b"crate"
    missing = kiste("get", words, "none")
    assert missing.returncode == 1 and missing.stderr.startswith(b"kiste: ")
    wrong = kiste("no-such-command")
    assert wrong.returncode == 2 and b"no-such-command" in wrong.stderr


def test_pip_installs_a_script(words):
    script = Path(sysconfig.get_path("scripts")) / ("kiste.exe" if os.name == "nt" else "kiste")
    if not script.exists():
        pytest.skip("not installed by pip")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kiste ")


def test_it_is_called_as_what_was_typed(tmp_path):
    done = kiste("demo", tmp_path / "demo")
    # A path to it, which can be pasted.
    assert done.returncode == 0 and b"__main__.py --help" in done.stdout


@unix
def test_a_reader_that_has_seen_enough_is_no_error(words):
    with subprocess.Popen([*KISTE, "ls", words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.readline()
        run.stdout.close()
        assert run.wait(60) == 0 and run.stderr.read() == b""


@unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_reader_at_once(words, number):
    run = subprocess.Popen([*KISTE, "ls", words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # It runs, and waits for its reader.
    run.stdout.readline()
    run.send_signal(number)
    assert run.wait(60) == -number and run.stderr.read() == b""
    run.stdout.close()
    run.stderr.close()


@unix
def test_no_file_takes_the_place_of_a_closed_standard_output(words, tmp_path):
    def close():
        os.close(1)

    copy = tmp_path / "copy.msgpack"
    done = subprocess.run([*KISTE, "select", words, copy, "--range", "..3"], preexec_fn=close, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert len(ki.open(copy)) == 3
    assert kiste("verify", "--deep", copy).returncode == 0


@unix
def test_names_may_have_any_bytes(words):
    done = kiste("info", words.parent / "\udcff")
    assert done.returncode == 2 and b"no such file" in done.stderr
