"""Organizations and keys on the running product: the operator's commands, suspension of what really runs, crashes."""
import os
import signal
import subprocess
import threading

import pytest

from stack import PRESET, ROOT, running_stack, wait_until

ORG = "/apis/nodus.dev/v1/organizations/dev"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("tenants"), 23500) as running:
        yield running


def admin(stack, *arguments, code=0):
    """nodus-lifecycle admin …, as the operator has it; its output."""
    lines = (stack.home / "etc/secrets.env").read_text().splitlines()
    done = subprocess.run([str(ROOT / f"build/{PRESET}/bin/nodus-lifecycle"), "--config",
                           str(stack.home / "etc/lifecycle.yaml"), "admin", *arguments],
                          env=os.environ | dict(line.split("=", 1) for line in lines), capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def make_key(stack, name, role):
    status, _, body = stack.call("POST", f"{ORG}/keys", {"metadata": {"name": name}, "spec": {"role": role}})
    assert status == 201, body
    return body["status"]["key"]


def test_suspension_stops_what_runs_and_keeps_its_files(stack):
    stack.create_running("kept", lifecycle={"idleTimeout": "0s"})
    assert stack.nodus("exec", "sb/kept", "--", "sh", "-c", "echo precious > /workspace/file").code == 0
    running = stack.start_nodus("exec", "sb/kept", "--", "sleep", "600")
    wait_until(lambda: stack.call("GET", "processes?sandbox=kept")[2]["items"], 30, "the command")
    admin(stack, "org", "suspend", "dev", "--reason", "unpaid since May")
    wait_until(lambda: stack.phase("kept") == "Stopped", 60, "the stop")
    assert running.wait(30) != 0
    new = {"apiVersion": "nodus.dev/v1", "kind": "Sandbox", "metadata": {"name": "new"}, "spec": {"image": "nodus/busybox"}}
    try:
        for method, path, body in (("POST", "sandboxes/kept/exec", {"command": ["true"]}),
                                   ("GET", "sandboxes/kept/files?path=/workspace/file", None),
                                   ("PATCH", "sandboxes/kept", {"spec": {"state": "Running"}}),
                                   ("POST", "sandboxes", new)):
            headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
            status, _, answer = stack.call(method, path, body, headers=headers)
            assert (status, answer["reason"]) == (403, "OrganizationSuspended"), answer
            assert "unpaid since May" in answer["message"]
        status, _, own = stack.call("GET", ORG)
        assert (status, own["status"]["phase"]) == (200, "Suspended")
    finally:
        admin(stack, "org", "resume", "dev")
    wait_until(lambda: stack.call("GET", ORG)[2]["status"]["phase"] == "Active", 5, "the resumption")
    assert stack.phase("kept") == "Stopped"
    # A key that was looked up is believed for half a second.
    read = wait_until(lambda: [r for r in [stack.nodus("exec", "sb/kept", "--", "cat", "/workspace/file")] if r.code == 0],
                      20, "the command of a resumed organization")[0]
    assert read.out == "precious\n"
    stack.delete("kept")


def test_quotas_of_the_operator_hold(stack):
    admin(stack, "org", "quota", "dev", "--sandboxes", "3")
    try:
        made = []
        threads = [threading.Thread(target=lambda i=i: made.append(stack.create(f"q{i}", state="Stopped")[0]))
                   for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(made) == [201] * 3 + [403] * 17
        assert "exceeded quota" in stack.nodus("create", "sandbox", "q99", "--image", "nodus/busybox").err
    finally:
        admin(stack, "org", "quota", "dev", "--sandboxes", "default")
    for i in range(20):
        stack.call("DELETE", f"sandboxes/q{i}")


def test_another_organization_sees_nothing(stack, tmp_path):
    admin(stack, "org", "create", "rival")
    admin(stack, "project", "create", "default", "--org", "rival")
    admin(stack, "key", "create", "first", "--org", "rival", "--key-out", str(tmp_path / "key"))
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    rival = (tmp_path / "key").read_text().strip()
    stack.create("mine", state="Stopped")
    assert stack.call("GET", "sandboxes/mine", key=rival)[0] == 404
    assert stack.call("GET", "sandboxes", key=rival)[2]["items"] == []
    assert stack.call("GET", ORG, key=rival)[0] == 404
    status, _, theirs = stack.call("POST", "sandboxes", {
        "apiVersion": "nodus.dev/v1", "kind": "Sandbox", "metadata": {"name": "mine"},
        "spec": {"image": "nodus/busybox", "state": "Stopped"}}, key=rival)
    assert (status, theirs["metadata"]["namespace"]) == (201, "default")
    assert stack.call("DELETE", "sandboxes/mine", key=rival)[0] in (200, 202)
    assert stack.phase("mine") == "Stopped"
    admin(stack, "key", "revoke", "first", "--org", "rival", code=1)  # the last one
    stack.delete("mine")


def test_a_revoked_key_loses_its_open_command(stack):
    stack.create_running("open", lifecycle={"idleTimeout": "0s"})
    key = make_key(stack, "leaked", "developer")
    broken = []

    def follow():
        try:
            broken.append(stack.call("POST", "sandboxes/open/exec", {"command": ["sleep", "60"]}, key=key))
        except Exception as error:  # the connection ends in the middle of the answer
            broken.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(lambda: stack.call("GET", "processes?sandbox=open")[2]["items"], 30, "the command")
    assert stack.call("DELETE", f"{ORG}/keys/leaked")[0] == 200
    assert stack.call("GET", "sandboxes/open", key=key)[0] == 401
    thread.join(10)
    assert not thread.is_alive() and isinstance(broken[0], Exception), broken
    stack.delete("open")


def test_the_audit_log_survives_a_crash_and_no_secret_is_anywhere(stack):
    key = make_key(stack, "crash", "developer")
    for i in range(30):
        stack.call("DELETE", f"sandboxes/none-{i}", key=key)
    os.kill(stack.pid("lifecycle"), signal.SIGKILL)
    stack.up()

    def written():
        items = stack.call("GET", f"{ORG}/auditevents?key=crash")[2]["items"]
        return len({item["object"] for item in items}) == 30
    wait_until(written, 20, "every row")
    for path in [*(stack.home / "log").iterdir(), stack.home / "audit.spool"]:
        assert key not in path.read_text(errors="replace"), path
    rows = stack.sql("SELECT count(*) FROM lifecycle.audit a WHERE a::text LIKE '%nodus\\_%'")
    assert rows == ["0"]


def test_metrics_are_not_for_tenants(stack):
    assert stack.call("GET", "/metrics", key="")[0] == 200  # from this machine
    assert stack.call("GET", "/metrics", headers={"X-Forwarded-For": "203.0.113.9"})[0] == 404
