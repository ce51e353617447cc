"""Budgets on the running product: an object of the API like the others."""
import threading

import pytest

from kubernetes_api import (GROUP, api_client, client, dynamic, lines_of, project_path, raw, refused, watch)
from stack import running_stack, wait_until

BUDGETS = {**GROUP, "plural": "budgets"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture(scope="module")
def money(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("budgets"), 24700) as stack:
        yield stack


@pytest.fixture(scope="module")
def api(money):
    with api_client(money) as one:
        yield one


@pytest.fixture(scope="module")
def objects(api):
    return client.CustomObjectsApi(api)


def budget(name, limit, period="Total", **spec):
    return {"apiVersion": "nodus.dev/v1", "kind": "Budget", "metadata": {"name": name},
            "spec": {"limitUSD": str(limit), "period": period, **spec}}


def test_it_is_found_listed_and_watched_as_other_objects(api, objects, money):
    kinds = {one.name: one for one in objects.get_api_resources("nodus.dev", "v1").resources}
    assert kinds["budgets"].kind == "Budget" and {"list", "watch", "patch"} <= set(kinds["budgets"].verbs)
    start = objects.list_namespaced_custom_object(namespace=api.project, **BUDGETS)["metadata"]["resourceVersion"]
    for name in ("one", "three", "two"):
        made = objects.create_namespaced_custom_object(namespace=api.project, body=budget(name, "5.00"), **BUDGETS)
        assert made["metadata"]["uid"] and int(made["metadata"]["resourceVersion"]) > int(start)
    page = objects.list_namespaced_custom_object(namespace=api.project, limit=2, **BUDGETS)
    rest = objects.list_namespaced_custom_object(namespace=api.project, limit=2, _continue=page["metadata"]["continue"],
                                                 **BUDGETS)
    assert [one["metadata"]["name"] for one in page["items"] + rest["items"]] == ["one", "three", "two"]
    assert "continue" not in rest["metadata"]
    only = objects.list_namespaced_custom_object(namespace=api.project, field_selector="metadata.name=two", **BUDGETS)
    assert [one["metadata"]["name"] for one in only["items"]] == ["two"]
    assert refused(objects.list_namespaced_custom_object, namespace=api.project, field_selector="spec.period=Total",
                   **BUDGETS)[0] == 400

    objects.patch_namespaced_custom_object(namespace=api.project, name="two", body={"spec": {"limitUSD": "6.00"}}, **BUDGETS)
    objects.delete_namespaced_custom_object(namespace=api.project, name="three", **BUDGETS)
    told = [(event["type"], event["object"]["metadata"]["name"], int(event["object"]["metadata"]["resourceVersion"]))
            for event in watch.Watch().stream(objects.list_namespaced_custom_object, namespace=api.project,
                                              resource_version=start, timeout_seconds=1, **BUDGETS)]
    assert [one[:2] for one in told] == [("ADDED", "one"), ("ADDED", "three"), ("ADDED", "two"), ("MODIFIED", "two"),
                                         ("DELETED", "three")]
    versions = [version for _, _, version in told]
    assert versions == sorted(set(versions))
    path = project_path(api, f"budgets?watch=true&resourceVersion={versions[2]}&timeoutSeconds=1"
                        "&fieldSelector=metadata.name%3Dtwo&allowWatchBookmarks=true")
    assert [one["type"] for one in lines_of(money, path)] == ["MODIFIED", "BOOKMARK"]
    begun = list(lines_of(money, project_path(api, "budgets?watch=true&timeoutSeconds=1")))
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in begun] == [("ADDED", "one"), ("ADDED", "two")]
    assert raw(money, project_path(api, f"budgets?watch=true&resourceVersion={2**62}"))[0] == 410

    _, _, table = raw(money, project_path(api, "budgets"), TABLE)
    assert [row["cells"][:4] for row in table["rows"]] == [["one", "Total", "$5.0000", "$0.0000"],
                                                           ["two", "Total", "$6.0000", "$0.0000"]]
    _, _, partial = raw(money, project_path(api, "budgets/one"),
                        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    assert partial["kind"] == "PartialObjectMetadata" and "spec" not in partial
    got = dynamic.DynamicClient(api).resources.get(api_version="nodus.dev/v1", kind="Budget")
    assert [one.metadata.name for one in got.get(namespace=api.project).items] == ["one", "two"]
    _, _, document = raw(money, "/openapi/v3/apis/nodus.dev/v1")
    schema = document["components"]["schemas"]["Budget"]["properties"]
    read = objects.get_namespaced_custom_object(namespace=api.project, name="one", **BUDGETS)
    for part in ("metadata", "spec", "status"):
        assert set(read[part]) <= set(schema[part]["properties"]), f"{part} has fields that OpenAPI does not know"
    for name in ("one", "two"):
        objects.delete_namespaced_custom_object(namespace=api.project, name=name, **BUDGETS)


def test_preconditions_dry_runs_and_the_project(api, objects, money):
    made = objects.create_namespaced_custom_object(namespace=api.project, body=budget("dry", "5.00"), **BUDGETS)
    objects.delete_namespaced_custom_object(namespace=api.project, name="dry", dry_run="All", **BUDGETS)
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        options = client.V1DeleteOptions(preconditions=wrong)
        code, status = refused(objects.delete_namespaced_custom_object, namespace=api.project, name="dry", body=options,
                               **BUDGETS)
        assert (code, status["reason"]) == (409, "Conflict")
    read = objects.get_namespaced_custom_object(namespace=api.project, name="dry", **BUDGETS)
    read["spec"]["limitUSD"] = "6.00"
    objects.replace_namespaced_custom_object(namespace=api.project, name="dry", body=read, **BUDGETS)
    assert refused(objects.replace_namespaced_custom_object, namespace=api.project, name="dry", body=read, **BUDGETS)[0] == 409
    options = client.V1DeleteOptions(preconditions={"uid": made["metadata"]["uid"]}, propagation_policy="Background")
    objects.delete_namespaced_custom_object(namespace=api.project, name="dry", body=options, **BUDGETS)

    organization = "/apis/nodus.dev/v1/organizations/dev/projects"
    assert money.call("POST", organization, {"metadata": {"name": "limited"}})[0] == 201
    inside = "/apis/nodus.dev/v1/namespaces/limited/budgets"
    assert money.call("POST", inside, budget("left", "1.00"))[0] == 201
    status, _, body = money.call("DELETE", f"{organization}/limited")
    assert (status, body["reason"]) == (409, "ProjectNotEmpty") and "1 Budget" in body["message"]
    assert money.call("DELETE", f"{inside}/left")[0] == 200
    assert money.call("DELETE", f"{organization}/limited")[0] == 200


def test_labels_and_annotations_are_kept_as_kubectl_writes_them(api, objects, money):
    """`kubectl apply` notes what it applied in an annotation, and patches it later."""
    noted = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":{"limitUSD":"5.00"}}\n'}
    body = budget("noted", "5.00") | {"metadata": {"name": "noted", "labels": {"team": "a"}, "annotations": noted}}
    made = objects.create_namespaced_custom_object(namespace=api.project, body=body, **BUDGETS)
    assert made["metadata"]["labels"] == {"team": "a"} and made["metadata"]["annotations"] == noted
    again = body | {"metadata": {"name": "noted", "labels": {"team": "z"}}}
    status, _, same = money.call("POST", "budgets", again)
    assert status == 200 and same["metadata"]["labels"] == {"team": "a"}, "never a difference"
    patch = lambda **metadata: objects.patch_namespaced_custom_object(
        namespace=api.project, name="noted", body={"metadata": metadata}, **BUDGETS)
    got = patch(labels={"team": "b"})
    assert got["metadata"]["labels"] == {"team": "b"} and got["metadata"]["annotations"] == noted
    version = lambda one: int(one["metadata"]["resourceVersion"])
    assert got["metadata"]["generation"] == 1 and version(got) > version(made)
    assert patch(labels={"team": "b"})["metadata"]["resourceVersion"] == got["metadata"]["resourceVersion"], "no news"
    selected = lambda labels: [one["metadata"]["name"] for one in objects.list_namespaced_custom_object(
        namespace=api.project, label_selector=labels, **BUDGETS)["items"]]
    assert (selected("team=b"), selected("team=a")) == (["noted"], [])
    seen = lambda labels: [event["type"] for event in watch.Watch().stream(
        objects.list_namespaced_custom_object, namespace=api.project, label_selector=labels, timeout_seconds=1,
        resource_version=made["metadata"]["resourceVersion"], **BUDGETS)]
    assert (seen("team=a"), seen("team=b"), seen("team=z")) == (["DELETED"], ["ADDED"], [])
    for wrong in ({"labels": {"team": "not a value!"}}, {"labels": {"/x": "y"}}, {"annotations": {"why": 7}},
                  {"annotations": {"long": "x" * 4096}}):
        code, status = refused(patch, **wrong)
        assert code == 422 and status["details"]["causes"][0]["field"].startswith("metadata"), status
    got["metadata"].pop("labels")
    put = objects.replace_namespaced_custom_object(namespace=api.project, name="noted", body=got, **BUDGETS)
    assert "labels" not in put["metadata"] and put["metadata"]["annotations"] == noted
    objects.delete_namespaced_custom_object(namespace=api.project, name="noted", **BUDGETS)


def test_the_cli_knows_them(money, tmp_path):
    assert money.nodus("create", "budget", "cli", "--limit", "7.00", "--period", "Monthly").code == 0
    (tmp_path / "budget.yaml").write_text("apiVersion: nodus.dev/v1\nkind: Budget\nmetadata: {name: cli}\n"
                                          "spec: {limitUSD: '8.00', thresholdsPercent: [90]}\n")
    assert "configured" in money.nodus("apply", "-f", tmp_path / "budget.yaml").out
    (tmp_path / "budget.yaml").write_text("apiVersion: nodus.dev/v1\nkind: Budget\nmetadata: {name: cli, labels: {team: a}}\n"
                                          "spec: {limitUSD: '8.00', thresholdsPercent: [90]}\n")
    assert "configured" in money.nodus("apply", "-f", tmp_path / "budget.yaml").out
    assert "unchanged" in money.nodus("apply", "-f", tmp_path / "budget.yaml").out
    assert "cli" in money.nodus("get", "budgets", "-l", "team=a").out
    assert "team=a" in money.nodus("describe", "budget/cli").out
    (tmp_path / "budget.yaml").write_text("apiVersion: nodus.dev/v1\nkind: Budget\nmetadata: {name: cli}\n"
                                          "spec: {limitUSD: '8.00', period: Monthly}\n")
    assert "configured" in money.nodus("apply", "-f", tmp_path / "budget.yaml").out
    assert "cli" in money.nodus("get", "budgets", "-l", "team=a").out, "what a manifest does not speak of stays"
    assert "$8.0000" in money.nodus("get", "budgets").out and "Monthly" in money.nodus("get", "budget/cli").out
    assert "$8.0000" in money.nodus("describe", "budget/cli").out
    watching = money.start_nodus("get", "budgets", "-w")
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(iter(watching.stdout.readline, "")))
    reader.start()
    wait_until(lambda: any(line.startswith("cli ") for line in seen), 30, "the list")
    assert money.nodus("delete", "budget/cli").code == 0
    wait_until(lambda: any("cli (deleted)" in line for line in seen), 30, "the end of it")
    watching.terminate()
    reader.join(30)
    assert money.nodus("delete", "budget/cli").code != 0
