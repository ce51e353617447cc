"""Bad input: 4xx with every fault and its path, and nothing changed."""
import pytest

GOOD = {"apiVersion": "nodus.dev/v1", "kind": "Sandbox", "metadata": {"name": "never"},
        "spec": {"image": "nodus/busybox"}}


def spec(**changes):
    return GOOD | {"spec": GOOD["spec"] | changes}


@pytest.mark.parametrize("body, status, field", [
    (b"", 400, None), (b"{", 400, None), (b"[]", 400, None), (b"\xff\xfe", 400, None),
    (GOOD | {"extra": 1}, 422, "extra"),
    (GOOD | {"metadata": {"name": "Bad Name"}}, 422, "metadata.name"),
    (GOOD | {"metadata": {"name": "a" * 64}}, 422, "metadata.name"),
    (spec(image="nodus/none"), 422, "spec.image"),
    (spec(image=7), 422, "spec.image"),
    (spec(resources={"cpu": "65"}), 422, "spec.resources.cpu"),
    (spec(resources={"memory": "1"}), 422, "spec.resources.memory"),
    (spec(resources={"gpu": "1"}), 422, "spec.resources.gpu"),
    (spec(lifecycle={"idleTimeout": "1s"}), 422, "spec.lifecycle.idleTimeout"),
    (spec(workingDir="/proc/self/fd/7"), 422, "spec.workingDir"),
    (spec(maxCostUSD=1.0), 422, "spec.maxCostUSD"),
    (spec(network={"egress": {"policy": "Some"}}), 422, "spec.network.egress.policy"),
])
def test_create(stack, body, status, field):
    got, _, answer = stack.call("POST", "sandboxes", body)
    assert got == status and answer["kind"] == "Status" and answer["status"] == "Failure", answer
    if field:
        assert field in {cause["field"] for cause in answer["details"]["causes"]}, answer
    assert stack.sandbox("never") is None


@pytest.mark.parametrize("method, path, body, field", [
    ("POST", "sandboxes", b'{"kind":"Sandbox","spec":{"image":"a","image":"a"}}', "spec.image"),
    ("PUT", "sandboxes/twice", b'{"kind":"Sandbox","kind":"Sandbox"}', "kind"),
    ("PATCH", "sandboxes/twice", b'{"spec":{"state":"Stopped","state":"Running"}}', "spec.state"),
    ("DELETE", "sandboxes/twice", b'{"dryRun":["All"],"dryRun":[]}', "dryRun"),
    ("POST", "sandboxes/twice/exec", b'{"command":["a"],"env":{"A":"1","A":"2"}}', "env.A"),
    ("POST", "/apis/nodus.dev/v1/organizations/dev/keys", b'{"role":"viewer","role":"admin"}', "role"),
    ("POST", "/apis/nodus.dev/v1/organizations/dev/projects", b'{"name":"a","name":"b"}', "name"),
])
def test_a_field_that_is_there_twice(stack, method, path, body, field):
    if stack.sandbox("twice") is None:
        assert stack.create("twice", state="Stopped")[0] == 201
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, _, answer = stack.call(method, path, body, headers={"Content-Type": kind})
    assert (status, answer["reason"]) == (400, "BadRequest"), answer
    assert [cause["field"] for cause in answer["details"]["causes"]] == [field], answer
    assert stack.phase("twice") == "Stopped"


def test_every_fault_at_once(stack):
    _, _, answer = stack.call("POST", "sandboxes", spec(resources={"cpu": "0", "memory": "x"}, state="Up", what=1))
    assert {cause["field"] for cause in answer["details"]["causes"]} == {
        "spec.resources.cpu", "spec.resources.memory", "spec.state", "spec.what"}


@pytest.mark.parametrize("body, field", [
    ({}, "command"), ({"command": []}, "command"), ({"command": "ls"}, "command"), ({"command": [1]}, "command[0]"),
    ({"command": ["x"] * 1025}, "command"), ({"command": ["x" * 70000]}, "command"),
    ({"command": ["x"], "timeout": "25h"}, "timeout"), ({"command": ["x"], "timeout": 5}, "timeout"),
    ({"command": ["x"], "env": {"A=B": "c"}}, "env.A=B"), ({"command": ["x"], "workingDir": "/sys"}, "workingDir"),
    ({"command": ["x"], "stdin": "not base64!"}, "stdin"), ({"command": ["x"], "shell": True}, "shell"),
])
def test_exec(stack, body, field):
    if stack.sandbox("bad-exec") is None:
        stack.create_running("bad-exec")
    status, _, answer = stack.call("POST", "sandboxes/bad-exec/exec", body)
    assert status == 422, answer
    assert field in {cause["field"] for cause in answer["details"]["causes"]}, answer


@pytest.mark.parametrize("path, status", [
    ("relative", 422), ("/proc/self/environ", 403), ("", 422), ("/workspace/none", 404),
    ("/../etc/shadow", 404),  # ".." ends at the Sandbox's own root, where there is none; the machine has one
])
def test_files(stack, path, status):
    if stack.sandbox("bad-exec") is None:
        stack.create_running("bad-exec")
    got, _, answer = stack.call("GET", f"sandboxes/bad-exec/files?path={path}")
    assert (got, answer["kind"], answer["status"]) == (status, "Status", "Failure"), answer


def test_manifest_faults_in_the_cli(stack, tmp_path):
    for text in ("a: [", "", "- just\n- a list\n", "kind: Sandbox\n"):
        (tmp_path / "bad.yaml").write_text(text)
        ran = stack.nodus("apply", "-f", "bad.yaml", cwd=tmp_path)
        assert ran.code in (1, 2) and ran.err and "created" not in ran.out, (text, ran)


def test_keys_and_tenants(stack):
    for key in ("", "nodus_wrong", "x" * 5000):
        status, _, answer = stack.call("GET", "sandboxes", key=key or "none")
        assert status in (401, 431), answer
    other = stack.env["NODUS_API"].split("/apis/")[1].replace("namespaces/default", "namespaces/other")
    status, _, answer = stack.call("GET", f"/apis/{other}/sandboxes")
    assert (status, answer["reason"]) == (404, "NotFound")
    status, _, answer = stack.call("GET", "/no/such/route")
    assert status == 404 and answer["kind"] == "Status"
