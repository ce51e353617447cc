"""The CLI's reading and waiting, as a person and a script see it."""
import json
import subprocess
import time

import pytest

from stack import running_stack, wait_until

MANIFEST = """\
apiVersion: nodus.dev/v1
kind: Sandbox
metadata: {{name: {name}, labels: {{team: {team}}}}}
spec: {{image: nodus/busybox}}
"""


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("cli"), 24040) as stack:
        yield stack


def test_several_documents_selected_watched_described_and_deleted(cli, tmp_path):
    teams = (("a", "red"), ("b", "blue"), ("c", "red"))
    text = "---\n".join(MANIFEST.format(name=name, team=team) for name, team in teams)
    assert cli.nodus("apply", "-f", "-", "--dry-run", stdin=text).code == 0
    assert cli.nodus("get", "sandboxes", "-o", "name").out == ""
    applied = cli.nodus("apply", "-f", "-", stdin=text)
    assert applied.out == "sandbox/a created\nsandbox/b created\nsandbox/c created\n", applied
    assert cli.nodus("apply", "-f", "-", stdin=text).out.count("unchanged") == 3
    for name in "abc":
        waited = cli.nodus("wait", f"sb/{name}", "--for=condition=Ready", "--timeout=60s")
        assert (waited.code, waited.out) == (0, f"sandbox/{name} condition met\n"), waited

    assert cli.nodus("get", "sb", "-l", "team=red", "-o", "name").out.split() == ["sandbox/a", "sandbox/c"]
    assert "team" in cli.nodus("get", "sb/a", "-o", "yaml").out
    assert json.loads(cli.nodus("get", "sb", "-o", "json").out)["kind"] == "SandboxList"
    wide = cli.nodus("get", "sb/a", "-o", "wide").out
    assert "IMAGE" in wide and "nodus/busybox" in wide
    assert cli.nodus("get", "sb/none").code == 1

    cli.nodus("exec", "sb/a", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    wait_until(lambda: "NonZeroExit" in cli.nodus("get", "processes", "--sandbox", "sb/a").out, 20, "its end")
    log = cli.nodus("logs", "sb/a")
    assert (log.out, log.err) == ("out\n", "err\n"), log
    shown = cli.nodus("describe", "sb/a").out
    for part in ("Name:           a\n", "Phase:          Running", "Conditions:", "Latest processes:", "sb-a-1",
                 "Latest events:"):
        assert part in shown, shown
    assert "a" in cli.nodus("events", "sb/a").out

    gone = cli.nodus("delete", "sb/a", "sb/b", "c")
    assert (gone.code, gone.out) == (0, ""), gone
    assert cli.nodus("get", "sandboxes", "-o", "name").out == ""


def test_watch_shows_each_phase_until_it_is_gone(cli):
    watching = subprocess.Popen(["nodus", "get", "sandboxes", "-w"], env=cli.env, text=True, stdout=subprocess.PIPE,
                                stdin=subprocess.DEVNULL)
    try:
        seen = []
        cli.nodus("create", "sandbox", "seen", "--image", "nodus/busybox")

        def until(phase):
            while True:
                line = watching.stdout.readline()
                assert line, seen
                if line.startswith("seen"):
                    seen.append(line.split()[1])
                    if seen[-1] == phase:
                        return

        until("Running")
        cli.nodus("stop", "sb/seen")
        until("Stopped")
        cli.nodus("delete", "sb/seen")
        until("Deleted")
        assert "Stopping" in seen, seen
    finally:
        watching.terminate()
        watching.wait(20)


def test_waiting_has_an_end(cli):
    cli.create_running("waits")
    began = time.monotonic()
    waited = cli.nodus("wait", "sb/waits", "--for=phase=Stopped", "--timeout=2s")
    assert waited.code == 124 and time.monotonic() - began >= 2, waited
    assert "sandboxes/waits is still not yet Stopped" in waited.err
    deleting = cli.start_nodus("wait", "sb/waits", "--for=delete")
    cli.delete("waits")
    assert deleting.wait(60) == 0


def test_a_command_wakes_it_without_a_word_on_stdout(cli):
    cli.create_running("quiet")
    assert cli.nodus("stop", "sb/quiet").code == 0
    ran = cli.nodus("exec", "sb/quiet", "--", "echo", "here")
    assert (ran.code, ran.out) == (0, "here\n"), ran
    cli.delete("quiet")


def test_faults_say_what_to_do_next(cli):
    for arguments, code, said in [
            (["get", "pods"], 2, "sandboxes (sb)"),
            (["exec", "sb/none", "--", "true"], 1, "nodus get sandboxes lists what is there."),
            (["create", "sandbox", "odd", "--cpu", "1000"], 1, "0.25 to 64"),
            (["create", "sandbox", "Odd_Name"], 1, "name"),
            (["exec", "sb/none", "echo"], 2, "A command stands after --"),
            (["--api", "http://127.0.0.1:9", "--retry-for", "1s", "get", "sb"], 69, "No connection"),
    ]:
        ran = cli.nodus(*arguments)
        assert ran.code == code and said in ran.err and ran.out == "", (arguments, ran)
