"""The API as Kubernetes' own Python client uses it, unchanged: custom objects, watches, the dynamic client, Events,
Tables, discovery, OpenAPI, dry runs, and what is refused."""
import json
import threading

import pytest

from kubernetes_api import (GROUP, api_client, client, dynamic, lines_of, manifest, project_path, raw, refused, watch,
                            watches)
from stack import wait_until


@pytest.fixture(scope="session")
def api(stack):
    with api_client(stack) as one:
        yield one


@pytest.fixture(scope="session")
def objects(api):
    return client.CustomObjectsApi(api)


def create(objects, api, name, labels=None, **spec):
    return objects.create_namespaced_custom_object(namespace=api.project, body=manifest(name, labels, **spec), **GROUP)


def delete(objects, api, name):
    objects.delete_namespaced_custom_object(namespace=api.project, name=name, **GROUP)


def test_create_get_patch_delete(api, objects, stack):
    made = create(objects, api, "k8s-one")
    assert made["metadata"]["uid"] and made["metadata"]["generation"] == 1
    assert int(made["metadata"]["resourceVersion"]) > 0
    wait_until(lambda: stack.phase("k8s-one") == "Running", 60, "k8s-one Running")
    got = objects.get_namespaced_custom_object(namespace=api.project, name="k8s-one", **GROUP)
    assert got["metadata"]["uid"] == made["metadata"]["uid"]
    patched = objects.patch_namespaced_custom_object(namespace=api.project, name="k8s-one",
                                                     body={"spec": {"state": "Stopped"}}, **GROUP)
    assert patched["spec"]["state"] == "Stopped" and patched["metadata"]["generation"] == 2
    delete(objects, api, "k8s-one")
    wait_until(lambda: stack.sandbox("k8s-one") is None, 60, "k8s-one gone")
    code, status = refused(objects.get_namespaced_custom_object, namespace=api.project, name="k8s-one", **GROUP)
    assert (code, status["reason"]) == (404, "NotFound")


def test_lists_have_pages_selectors_and_a_position(api, objects):
    names = [f"k8s-list-{i}" for i in range(5)]
    for i, name in enumerate(names):
        create(objects, api, name, {"suite": "list", "parity": "even" if i % 2 == 0 else "odd"}, state="Stopped")
    seen, token = [], None
    while True:
        page = objects.list_namespaced_custom_object(namespace=api.project, limit=2, label_selector="suite=list",
                                                     **GROUP, **({"_continue": token} if token else {}))
        assert len(page["items"]) <= 2
        seen += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break
    assert seen == names

    def select(**selectors):
        found = objects.list_namespaced_custom_object(namespace=api.project, **selectors, **GROUP)
        return [item["metadata"]["name"] for item in found["items"]]

    assert select(label_selector="suite in (list),parity!=odd") == names[::2]
    assert select(label_selector="suite=list,parity notin (even)") == names[1::2]
    assert select(label_selector="suite=list,!parity") == []
    assert select(field_selector=f"metadata.name={names[3]}") == [names[3]]
    assert set(names) <= set(select(field_selector="status.phase=Stopped"))
    for bad in ({"label_selector": "a in ("}, {"field_selector": "spec.image=x"}):
        assert refused(objects.list_namespaced_custom_object, namespace=api.project, **bad, **GROUP)[0] == 400
    assert refused(objects.list_namespaced_custom_object, namespace=api.project, _continue="bm9wZQ", **GROUP)[0] == 400
    for name in names:
        delete(objects, api, name)


def test_watch_tells_every_step_and_can_go_on(api, objects, stack):
    start = objects.list_namespaced_custom_object(namespace=api.project, **GROUP)["metadata"]["resourceVersion"]
    watcher, steps = watch.Watch(), []
    create(objects, api, "k8s-watch", {"suite": "watch"})
    for event in watcher.stream(objects.list_namespaced_custom_object, namespace=api.project, resource_version=start,
                                label_selector="suite=watch", timeout_seconds=90, **GROUP):
        steps.append((event["type"], event["object"]["status"]["phase"], event["object"]["metadata"]["resourceVersion"]))
        if steps[-1][1] == "Running" and steps[-1][0] != "DELETED" and len(steps) < 50:
            delete(objects, api, "k8s-watch")
        if event["type"] == "DELETED":
            break
    phases = [phase for _, phase, _ in steps]
    assert steps[0][0] == "ADDED" and phases[0] == "Pending" and steps[-1][0] == "DELETED"
    assert phases.index("Running") < phases.index("Terminating")
    versions = [int(version) for _, _, version in steps]
    assert versions == sorted(set(versions)), "each step has a later version"
    # Who comes back with a version in the middle is told what came after, and nothing else.
    again = [int(event["object"]["metadata"]["resourceVersion"])
             for event in watch.Watch().stream(objects.list_namespaced_custom_object, namespace=api.project,
                                               resource_version=str(versions[1]), label_selector="suite=watch",
                                               timeout_seconds=1, **GROUP)]
    assert again == versions[2:]


def test_a_watch_without_a_version_begins_with_what_is_there(api, objects):
    create(objects, api, "k8s-initial", state="Stopped")
    kinds = {}
    for event in watch.Watch().stream(objects.list_namespaced_custom_object, namespace=api.project, timeout_seconds=1,
                                      field_selector="metadata.name=k8s-initial", allow_watch_bookmarks=True, **GROUP):
        kinds.setdefault(event["type"], []).append(event["object"])
    assert [one["metadata"]["name"] for one in kinds["ADDED"]] == ["k8s-initial"]
    assert int(kinds["BOOKMARK"][-1]["metadata"]["resourceVersion"]) > 0, "the end tells where to go on"
    delete(objects, api, "k8s-initial")


def test_send_initial_events_end_with_their_bookmark(api, objects, stack):
    create(objects, api, "k8s-first", state="Stopped")
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    events = list(lines_of(stack, project_path(api, "sandboxes?" + query)))
    marks = [i for i, event in enumerate(events)
             if event["object"]["metadata"].get("annotations", {}).get("k8s.io/initial-events-end") == "true"]
    assert len(marks) == 1 and {event["type"] for event in events[:marks[0]]} == {"ADDED"}
    delete(objects, api, "k8s-first")


def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher(api, objects, stack):
    create(objects, api, "k8s-leaves", state="Stopped")
    path = project_path(api, "sandboxes?watch=true&timeoutSeconds=60&fieldSelector="
                        "metadata.name%3Dk8s-leaves,status.phase%3DStopped")
    events = lines_of(stack, path)
    assert next(events)["type"] == "ADDED"
    objects.patch_namespaced_custom_object(namespace=api.project, name="k8s-leaves", body={"spec": {"state": "Running"}},
                                           **GROUP)
    assert next(events)["type"] == "DELETED"
    delete(objects, api, "k8s-leaves")


def test_versions_that_are_not_there_are_410(api, objects, stack):
    far = str(2**62)
    code, status = refused(lambda: list(watch.Watch().stream(
        objects.list_namespaced_custom_object, namespace=api.project, resource_version=far, timeout_seconds=5, **GROUP)))
    assert (code, status["reason"]) == (410, "Expired")
    assert raw(stack, project_path(api, "sandboxes?watch=true&resourceVersion=abc"))[0] == 422


def test_many_watchers_see_the_same(api, objects, stack):
    start = objects.list_namespaced_custom_object(namespace=api.project, **GROUP)["metadata"]["resourceVersion"]
    seen = [[] for _ in range(12)]

    def follow(into):
        path = project_path(api, f"sandboxes?watch=true&resourceVersion={start}&timeoutSeconds=60&labelSelector=suite%3Dmany")
        for event in lines_of(stack, path):
            into.append((event["type"], event["object"]["metadata"]["resourceVersion"]))
            if event["type"] == "DELETED":
                return

    threads = [threading.Thread(target=follow, args=(into,)) for into in seen]
    for thread in threads:
        thread.start()
    create(objects, api, "k8s-many", {"suite": "many"}, state="Stopped")
    objects.patch_namespaced_custom_object(namespace=api.project, name="k8s-many", body={"spec": {"maxCostUSD": "2.00"}},
                                           **GROUP)
    delete(objects, api, "k8s-many")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert all(one == seen[0] for one in seen) and len(seen[0]) >= 3


def test_processes_are_listed_and_watched(api, objects, stack):
    stack.create_running("k8s-commands")
    processes = {**GROUP, "plural": "processes"}
    start = objects.list_namespaced_custom_object(namespace=api.project, **processes)["metadata"]["resourceVersion"]
    assert stack.nodus("exec", "sb/k8s-commands", "--", "sh", "-c", "exit 3").code == 3
    told = []
    for event in watch.Watch().stream(objects.list_namespaced_custom_object, namespace=api.project, timeout_seconds=60,
                                      resource_version=start, field_selector="spec.sandbox=k8s-commands", **processes):
        told.append((event["type"], event["object"]["status"]["phase"]))
        if told[-1][1] == "Ended":
            break
    assert told == [("ADDED", "Running"), ("MODIFIED", "Ended")]
    found = objects.list_namespaced_custom_object(namespace=api.project, field_selector="spec.sandbox=k8s-commands",
                                                  **processes)
    assert [item["status"]["exitCode"] for item in found["items"]] == [3]
    stack.delete("k8s-commands")


def test_events_of_an_object(api, objects, stack):
    stack.create_running("k8s-events")
    core = client.CoreV1Api(api)

    def reasons():
        found = core.list_namespaced_event(api.project, field_selector="involvedObject.name=k8s-events")
        return {event.reason for event in found.items}

    wait_until(lambda: {"Created", "Scheduled", "Started"} <= reasons(), 30, "the events of a start")
    event = core.list_namespaced_event(api.project, field_selector="involvedObject.name=k8s-events,reason=Started").items[0]
    assert event.type == "Normal" and event.count == 1 and event.involved_object.kind == "Sandbox"
    assert event.involved_object.uid == stack.sandbox("k8s-events")["metadata"]["uid"]
    assert event.first_timestamp == event.last_timestamp
    own = objects.list_namespaced_custom_object(namespace=api.project, field_selector="involvedObject.name=k8s-events",
                                                **{**GROUP, "plural": "events"})
    assert reasons() <= {item["reason"] for item in own["items"]}
    stack.delete("k8s-events")
    assert "Deleted" in reasons(), "what happened is told for a day after the end"


def test_the_dynamic_client(api, objects, stack):
    dynamic_client = dynamic.DynamicClient(api)
    sandboxes = dynamic_client.resources.get(api_version="nodus.dev/v1", kind="Sandbox")
    made = sandboxes.create(namespace=api.project, body=manifest("k8s-dynamic", state="Stopped"))
    assert made.metadata.name == "k8s-dynamic"
    assert "k8s-dynamic" in [item.metadata.name for item in sandboxes.get(namespace=api.project).items]
    patched = sandboxes.patch(namespace=api.project, name="k8s-dynamic", body={"spec": {"maxCostUSD": "3.00"}},
                              content_type="application/merge-patch+json")
    assert patched.spec.maxCostUSD == "3.00"
    for event in sandboxes.watch(namespace=api.project, name="k8s-dynamic", timeout=30):
        assert event["type"] == "ADDED"
        break
    sandboxes.delete(name="k8s-dynamic", namespace=api.project)
    assert dynamic_client.version["kubernetes"]["major"] == "1"


def test_discovery_and_openapi(api, stack):
    groups = client.ApisApi(api).get_api_versions()
    assert [group.name for group in groups.groups] == ["nodus.dev"]
    found = client.CustomObjectsApi(api).get_api_resources("nodus.dev", "v1")
    kinds = {resource.name: resource for resource in found.resources}
    assert kinds["sandboxes"].short_names == ["sb"] and "watch" in kinds["processes"].verbs
    assert client.VersionApi(api).get_code().major == "1"
    _, _, together = raw(stack, "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    assert together["items"][0]["versions"][0]["resources"][0]["resource"] == "sandboxes"
    _, _, index = raw(stack, "/openapi/v3")
    for entry in index["paths"].values():
        status, _, document = raw(stack, entry["serverRelativeURL"])
        assert status == 200 and document["openapi"].startswith("3.0")
        text = json.dumps(document)
        for name in document["components"]["schemas"]:
            assert document["components"]["schemas"][name]["type"] == "object"
        for target in set(part.split('"')[0] for part in text.split("#/components/schemas/")[1:]):
            assert target in document["components"]["schemas"], f"{target} is named and not there"
    _, _, document = raw(stack, "/openapi/v3/apis/nodus.dev/v1")
    spec = document["components"]["schemas"]["Sandbox"]["properties"]["spec"]
    assert spec["properties"]["resources"]["properties"]["memory"]["default"] == "1Gi"
    assert spec["required"] == ["image"]


def test_tables_for_people(api, objects, stack):
    create(objects, api, "k8s-table", state="Stopped")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    _, _, table = raw(stack, project_path(api, "sandboxes?fieldSelector=metadata.name%3Dk8s-table"), accept)
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert names == ["Name", "Phase", "Activity", "CPU", "Memory", "GPU", "Cost", "Age"]
    assert table["rows"][0]["cells"][:7] == ["k8s-table", "Stopped", "Idle", "1", "1Gi", "-", "$0.0000"]
    assert table["rows"][0]["object"]["metadata"]["name"] == "k8s-table"
    _, _, one = raw(stack, project_path(api, "sandboxes/k8s-table"), accept)
    assert one["kind"] == "Table" and len(one["rows"]) == 1
    _, _, partial = raw(stack, project_path(api, "sandboxes/k8s-table"),
                        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    assert partial["kind"] == "PartialObjectMetadata" and "spec" not in partial
    assert raw(stack, project_path(api, "sandboxes"), "application/vnd.kubernetes.protobuf")[0] == 406
    delete(objects, api, "k8s-table")


def test_a_dry_run_changes_nothing(api, objects, stack):
    made = objects.create_namespaced_custom_object(namespace=api.project, body=manifest("k8s-dry"), dry_run="All", **GROUP)
    assert made["metadata"]["name"] == "k8s-dry" and made["spec"]["resources"]["cpu"] == "1"
    assert stack.sandbox("k8s-dry") is None
    bad = manifest("k8s-dry", resources={"cpu": "1000"})
    assert refused(objects.create_namespaced_custom_object, namespace=api.project, body=bad, dry_run="All", **GROUP)[0] == 422
    create(objects, api, "k8s-dry", state="Stopped")
    before = stack.sandbox("k8s-dry")["metadata"]
    patched = objects.patch_namespaced_custom_object(namespace=api.project, name="k8s-dry",
                                                     body={"spec": {"maxCostUSD": "9.00"}}, dry_run="All", **GROUP)
    assert patched["spec"]["maxCostUSD"] == "9.00"
    objects.delete_namespaced_custom_object(namespace=api.project, name="k8s-dry", dry_run="All", **GROUP)
    assert stack.sandbox("k8s-dry")["metadata"] == before
    assert "maxCostUSD" not in stack.sandbox("k8s-dry")["spec"]
    other = manifest("k8s-dry", resources={"cpu": "2"})
    code, status = refused(objects.create_namespaced_custom_object, namespace=api.project, body=other, dry_run="All", **GROUP)
    assert (code, status["reason"]) == (409, "AlreadyExists")
    assert stack.call("POST", "sandboxes?dryRun=Some", manifest("k8s-dry"))[0] == 422
    delete(objects, api, "k8s-dry")


def test_put_replaces_what_can_change(api, objects, stack):
    create(objects, api, "k8s-put", state="Stopped")
    body = stack.sandbox("k8s-put")
    body["spec"]["maxCostUSD"] = "4.00"
    done = objects.replace_namespaced_custom_object(namespace=api.project, name="k8s-put", body=body, **GROUP)
    assert done["spec"]["maxCostUSD"] == "4.00" and done["metadata"]["generation"] == 2
    code, status = refused(objects.replace_namespaced_custom_object, namespace=api.project, name="k8s-put", body=body, **GROUP)
    assert (code, status["reason"]) == (409, "Conflict"), "the version that was read is an old one now"
    body = stack.sandbox("k8s-put")
    body["spec"]["resources"]["cpu"] = "2"
    code, status = refused(objects.replace_namespaced_custom_object, namespace=api.project, name="k8s-put", body=body, **GROUP)
    assert code == 422 and [cause["field"] for cause in status["details"]["causes"]] == ["spec.resources.cpu"]
    code, _ = refused(objects.replace_namespaced_custom_object, namespace=api.project, name="k8s-none", body=manifest("k8s-none"),
                      **GROUP)
    assert code == 404, "PUT makes nothing"
    delete(objects, api, "k8s-put")


def test_patches_and_deletes_keep_their_preconditions(api, objects, stack):
    create(objects, api, "k8s-pre", state="Stopped")
    call = lambda **options: refused(objects.patch_namespaced_custom_object, namespace=api.project, name="k8s-pre",
                                     **options, **GROUP)
    assert call(body={"metadata": {"resourceVersion": "2"}, "spec": {"maxCostUSD": "5.00"}})[0] == 409
    assert call(body={"spec": {"image": "nodus/agent-tools"}})[0] == 422
    assert call(body={"spec": {"image": None}})[0] == 422
    objects.patch_namespaced_custom_object(namespace=api.project, name="k8s-pre", body={"spec": {"image": "nodus/busybox"}},
                                           **GROUP)  # what it has already is no change
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
    code, status = refused(objects.delete_namespaced_custom_object, namespace=api.project, name="k8s-pre", body=options, **GROUP)
    assert (code, status["reason"]) == (409, "Conflict")
    options.preconditions.uid = stack.sandbox("k8s-pre")["metadata"]["uid"]
    objects.delete_namespaced_custom_object(namespace=api.project, name="k8s-pre", body=options, propagation_policy="Foreground",
                                            grace_period_seconds=0, **GROUP)


def test_labels_and_annotations_change_as_kubectl_changes_them(api, objects, stack):
    """kubectl label and kubectl annotate send merge patches of metadata."""
    made = create(objects, api, "k8s-label", {"tier": "one", "old": "x"}, state="Stopped")
    patch = lambda **metadata: objects.patch_namespaced_custom_object(namespace=api.project, name="k8s-label",
                                                                      body={"metadata": metadata}, **GROUP)
    select = lambda labels: [item["metadata"]["name"] for item in objects.list_namespaced_custom_object(
        namespace=api.project, label_selector=labels, **GROUP)["items"]]
    at = made["metadata"]["resourceVersion"]
    got = patch(labels={"tier": "two", "old": None}, annotations={"why": "a test, with spaces"})
    assert got["metadata"]["labels"] == {"tier": "two"} and got["metadata"]["annotations"] == {"why": "a test, with spaces"}
    assert got["metadata"]["generation"] == made["metadata"]["generation"], "the spec is the same"
    assert got["status"]["phase"] == "Stopped" and got["spec"] == made["spec"], "it wakes nothing"
    assert select("tier=two,!old") == ["k8s-label"] and select("tier=one") == []
    events = [(event["type"], event["object"]["metadata"].get("labels")) for event in watch.Watch().stream(
        objects.list_namespaced_custom_object, namespace=api.project, resource_version=at, timeout_seconds=1,
        field_selector="metadata.name=k8s-label", **GROUP)]
    assert events == [("MODIFIED", {"tier": "two"})]
    gone = [event["type"] for event in watch.Watch().stream(
        objects.list_namespaced_custom_object, namespace=api.project, resource_version=at, timeout_seconds=1,
        label_selector="tier=one", **GROUP)]
    assert gone == ["DELETED"], "it left the selection"
    version = got["metadata"]["resourceVersion"]
    assert patch(labels={"tier": "two"})["metadata"]["resourceVersion"] == version, "no change, no news"
    code, status = refused(patch, labels={"tier": "late"}, resourceVersion=at)
    assert (code, status["reason"]) == (409, "Conflict")
    got = patch(labels={"tier": "three"}, resourceVersion=version)
    assert refused(patch, labels={"tier": "not a label!"})[1]["details"]["causes"][0]["field"] == "metadata.labels.tier"
    got["metadata"]["labels"] = {"only": "this"}
    put = objects.replace_namespaced_custom_object(namespace=api.project, name="k8s-label", body=got, **GROUP)
    assert put["metadata"]["labels"] == {"only": "this"} and put["metadata"]["annotations"] == {"why": "a test, with spaces"}
    assert refused(objects.replace_namespaced_custom_object, namespace=api.project, name="k8s-label", body=got,
                   **GROUP)[0] == 409, "that was the version before"
    status, _, again = stack.call("POST", "sandboxes", manifest("k8s-label", {"other": "labels"}, state="Stopped"))
    assert status == 200 and again["metadata"]["labels"] == {"only": "this"}, "labels are no difference, and stay"
    both = refused(objects.patch_namespaced_custom_object, namespace=api.project, name="k8s-label", **GROUP,
                   body={"metadata": {"labels": {"must": "stay-out"}}, "spec": {"image": "nodus/agent-tools"}})
    assert both[0] == 422 and stack.sandbox("k8s-label")["metadata"]["labels"] == {"only": "this"}, "all or nothing"
    threads = [threading.Thread(target=patch, kwargs={"labels": {f"from-{i}": "x"}}) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    labels = stack.sandbox("k8s-label")["metadata"]["labels"]
    assert labels == {"only": "this"} | {f"from-{i}": "x" for i in range(8)}, "patches of others are not undone"
    got = patch(labels=None)
    assert "labels" not in got["metadata"]
    delete(objects, api, "k8s-label")


def test_media_types_and_methods_that_are_not_taken(api, objects, stack):
    create(objects, api, "k8s-media", state="Stopped")
    for kind in ("application/json", "application/strategic-merge-patch+json", "application/json-patch+json",
                 "application/apply-patch+yaml"):
        status, _, body = raw(stack, project_path(api, "sandboxes/k8s-media"), method="PATCH", body={"spec": {}},
                              content_type=kind)
        assert (status, body["reason"]) == (415, "UnsupportedMediaType") and "merge-patch" in body["message"]
    status, _, body = raw(stack, project_path(api, "sandboxes"), method="POST", body=b"a: b", content_type="application/yaml")
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")
    status, headers, _ = raw(stack, project_path(api, "sandboxes"), method="DELETE")
    assert status == 405 and set(headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}
    delete(objects, api, "k8s-media")


def test_all_projects_at_once_is_refused_in_words(api, objects):
    code, status = refused(objects.list_cluster_custom_object, **GROUP)
    assert code == 403 and "namespaces/" in status["message"]


def test_a_watch_that_nobody_reads_ends(stack, api):
    import socket
    host, port = stack.env["NODUS_API"].split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as one:
        path = project_path(api, "sandboxes?watch=true&timeoutSeconds=300")
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stack.env['NODUS_API_KEY']}\r\n\r\n".encode())
        assert one.recv(64).startswith(b"HTTP/1.1 200")
        open_now = watches(stack)
        assert open_now >= 1
    wait_until(lambda: watches(stack) < open_now, 30, "the watch of a client that left is closed")
