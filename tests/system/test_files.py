"""Files through the CLI and the API of a running stack: cp both ways, by parts, and what a stopped Sandbox does."""
import hashlib
import json
import os
import subprocess
import threading
import urllib.parse

import pytest

from stack import running_stack, wait_until

EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("stack"), 23000) as running:
        running.create_running("f", resources={"disk": "1Gi"})
        yield running


def url(path, **more):
    return "sandboxes/f/files?" + urllib.parse.urlencode({"path": path} | more, quote_via=urllib.parse.quote)


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_large_files_go_by_parts(stack, tmp_path):
    big = tmp_path / "big"
    big.write_bytes(os.urandom(1 << 20) * 100 + b"tail")
    big.chmod(0o750)
    assert stack.nodus("cp", big, "sb/f:/workspace/deep/er/big").code == 0
    inside = stack.nodus("exec", "sb/f", "--", "sha256sum", "/workspace/deep/er/big").out.split()[0]
    assert inside == digest_of(big)
    assert stack.nodus("exec", "sb/f", "--", "stat", "-c", "%a", "/workspace/deep/er/big").out.strip() == "750"
    assert stack.nodus("cp", "sb/f:/workspace/deep/er/big", tmp_path / "back").code == 0
    assert digest_of(tmp_path / "back") == digest_of(big)
    status, _, body = stack.call("GET", url("/workspace/deep/er/big"))
    assert (status, body["reason"]) == (413, "FileTooLarge")
    status, headers, body = stack.call("GET", url("/workspace/deep/er/big"), headers={"Range": "bytes=-4"})
    assert (status, body) == (206, b"tail") and headers["Content-Range"].endswith(f"/{big.stat().st_size}")
    status, headers, body = stack.call("HEAD", url("/workspace/deep/er/big"))
    assert (status, int(headers["Content-Length"]), body) == (200, big.stat().st_size, b"")
    assert not [name for name in stack.nodus("exec", "sb/f", "--", "ls", "-a", "/workspace/deep/er").out.split()
                if name.startswith(".nodus")]


def test_pipes_in_and_out(stack, tmp_path):
    data = os.urandom(20 << 20)
    for size in (0, 5, 16 << 20, 20 << 20):
        done = subprocess.run(["nodus", "cp", "-", "sb/f:/workspace/piped"], env=stack.env, input=data[:size],
                              capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        done = subprocess.run(["nodus", "cp", "sb/f:/workspace/piped", "-"], env=stack.env, capture_output=True,
                              timeout=120)
        assert done.returncode == 0 and done.stdout == data[:size], (size, done.stderr)


def test_trees(stack, tmp_path):
    tree = tmp_path / "tree"
    for number in range(60):
        (tree / f"d{number % 7}" / "empty").mkdir(parents=True, exist_ok=True)
        (tree / f"d{number % 7}" / f"file {number}\n\udcff").write_bytes(os.urandom(number * 100))
    (tree / "link").symlink_to("d1")
    assert stack.nodus("cp", "-r", tree, "sb/f:/workspace/tree").code == 0
    ran = stack.nodus("cp", "-rp", "sb/f:/workspace/tree", tmp_path / "back")
    assert ran.code == 0, ran.err
    assert subprocess.run(["diff", "-r", tree, tmp_path / "back"], capture_output=True).returncode == 0
    assert os.readlink(tmp_path / "back/link") == "d1"


def test_a_hundred_who_create_one(stack):
    answers = []

    def create():
        answers.append(stack.call("PUT", url("/workspace/lock", expectedSHA256=EMPTY), b"same")[0])

    threads = [threading.Thread(target=create) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [412] * 99


def test_refusals(stack):
    for path, more, status, reason in [
            ("/etc/passwd", {}, 403, "Forbidden"), ("/proc/1/mem", {}, 403, "Forbidden"),
            ("/workspace", {}, 422, "NotAFile"), ("relative", {}, 422, "Invalid"),
            ("/workspace/x", {"expectedSha256": EMPTY}, 422, "Invalid"),
            ("/workspace/" + "n" * 256, {}, 422, "PathInvalid")]:
        got, _, body = stack.call("PUT", url(path, **more), b"x")
        assert (got, body["reason"]) == (status, reason), (path, body)
    got, _, body = stack.call("PUT", url("/workspace/x"), b"x" * (64 << 20 | 1))
    assert (got, body["reason"]) == (413, "FileTooLarge")
    listed = stack.call("GET", url("/workspace", list="true"))[2]
    assert "x" not in [item["name"] for item in listed["items"]]


def test_413_comes_before_the_body(stack, tmp_path):
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(99_999_999)
    done = subprocess.run(
        ["curl", "-sv", "-X", "PUT", "-H", f"Authorization: Bearer {stack.env['NODUS_API_KEY']}", "-H",
         "Expect: 100-continue", "-T", large,
         f"{stack.env['NODUS_API']}/{url('/workspace/x')}"], capture_output=True, text=True, timeout=30)
    assert "HTTP/1.1 413" in done.stderr and "100 Continue" not in done.stderr, done.stderr
    assert "FileTooLarge" in done.stdout


def test_a_stopped_sandbox_is_woken_and_keeps_its_files(stack, tmp_path):
    note = tmp_path / "note"
    note.write_text("kept\n")
    assert stack.nodus("cp", note, "sb/f:/workspace/").code == 0
    assert stack.nodus("stop", "sb/f").code == 0
    status, headers, body = stack.call("GET", url("/workspace/note"))
    assert (status, body["reason"], headers["Retry-After"]) == (503, "SandboxStarting", "2")
    assert stack.nodus("cp", "sb/f:/workspace/note", tmp_path / "back").code == 0
    assert (tmp_path / "back").read_text() == "kept\n"
    wait_until(lambda: stack.phase("f") == "Running", 60, "f Running")


def test_a_bad_request_wakes_nothing(stack):
    stack.create_running("asleep")
    assert stack.nodus("stop", "sb/asleep").code == 0
    for path, body in (("sandboxes/asleep/files?path=relative", None), ("sandboxes/asleep/files", None)):
        assert stack.call("GET", path, body)[0] == 422
    assert stack.phase("asleep") == "Stopped"
    stack.delete("asleep")


def test_a_copy_survives_a_lost_node(stack, tmp_path):
    """nodusd is killed in the middle of an upload: the copy ends well, and the file is whole."""
    big = tmp_path / "big"
    big.write_bytes(os.urandom(1 << 20) * 200)
    copying = stack.start_nodus("cp", big, "sb/f:/workspace/survivor")
    wait_until(lambda: any(item["name"].startswith(".nodus")
                           for item in stack.call("GET", url("/workspace", list="true"))[2].get("items", [])), 30,
               "the upload")
    stack.kill("nodusd")
    stack.up()
    out, err = copying.communicate(timeout=180)
    assert copying.returncode == 0, err
    assert stack.nodus("exec", "sb/f", "--", "sha256sum", "/workspace/survivor").out.split()[0] == digest_of(big)
    names = [item["name"] for item in stack.call("GET", url("/workspace", list="true"))[2]["items"]]
    assert not [name for name in names if name.startswith(".nodus")], "nothing is left of the first attempt"


def test_what_a_killed_upload_left_is_gone_at_the_next_start(stack, tmp_path):
    stack.create_running("cut")
    stack.nodus("exec", "sb/cut", "--", "sh", "-c", "echo mine > .nodus-notes; touch .nodus-7-1f-0")
    assert stack.nodus("stop", "sb/cut").code == 0
    shown = stack.nodus("exec", "sb/cut", "--", "ls", "-A", "/workspace").out.split()
    assert shown == [".nodus-notes"], shown
    stack.delete("cut")


def test_the_list_is_json_whatever_the_names(stack):
    stack.nodus("exec", "sb/f", "--", "sh", "-c", r"mkdir -p odd; cd odd; touch \"$(printf 'a\377b')\" 'q\"uote' back\\\\slash")
    status, _, body = stack.call("GET", url("/workspace/odd", list="true"))
    assert status == 200 and len(body["items"]) == 3, body
    assert json.dumps(body)


def test_a_full_disk_is_said_and_leaves_nothing(stack):
    stack.nodus("exec", "sb/f", "--", "sh", "-c", "mkdir -p full; dd if=/dev/zero of=full/fill bs=1M count=2000")
    status, _, body = stack.call("PUT", url("/workspace/full/more"), b"x" * (8 << 20))
    assert (status, body["reason"]) == (409, "DiskFull")
    names = [item["name"] for item in stack.call("GET", url("/workspace/full", list="true"))[2]["items"]]
    assert names == ["fill"]
    assert stack.call("DELETE", url("/workspace/full/fill"))[0] == 200
    assert stack.call("PUT", url("/workspace/full/more"), b"x" * (8 << 20))[0] == 200
