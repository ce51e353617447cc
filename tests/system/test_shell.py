"""nodus shell and exec -it, in a real terminal (tmux) and without one."""
import hashlib
import os
import signal
import subprocess

import pytest

from stack import running_stack, wait_until
from terminal import Terminal

QUICK = ["--image", "nodus/busybox", "--memory", "256Mi"]


@pytest.fixture(scope="module")
def shells(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("shell"), 24000) as stack:
        yield stack


@pytest.fixture
def terminal(shells, tmp_path):
    opened = Terminal(shells.env, tmp_path)
    opened.see("$")
    yield opened
    opened.close()


def leftovers(stack):
    return [item["metadata"]["name"] for item in stack.call("GET", "sandboxes")[2]["items"]
            if item["metadata"]["name"].startswith("shell-")]


def runs(stack, name, command):
    """Waits until the Sandbox runs it."""
    wait_until(lambda: any(line.rstrip().endswith(" " + command) for line in
                           stack.nodus("exec", f"sb/{name}", "--", "ps").out.splitlines()), 30, command)


def test_a_new_name_makes_the_sandbox_and_an_old_one_opens_it_again(shells, terminal):
    """The page, to the letter."""
    terminal.run("nodus", "shell", "sandbox/dev", "--cpu", "2", "--memory", "4Gi")
    terminal.see("sandboxes/dev is starting; waiting for it")
    shown = terminal.lines()
    at = shown.index("sandbox/dev created")
    assert shown[at + 1] == "sandboxes/dev is starting; waiting for it", shown
    terminal.see("$ ")  # the prompt of bash
    terminal.type("pwd; echo kept > file; id -u | grep -qx 0 || echo not-root; tty")
    terminal.see("not-root")
    terminal.see("/workspace")
    terminal.see("/dev/pts/")
    terminal.type("exit 7")
    assert terminal.ended() == 7
    sandbox = shells.sandbox("dev")
    assert sandbox["spec"]["resources"] | {"disk": ""} == {"cpu": "2", "memory": "4Gi", "disk": ""}
    assert shells.nodus("stop", "sb/dev").code == 0
    terminal.clear()
    terminal.run("nodus", "shell", "sandbox/dev")
    terminal.type("cat file; exit")
    terminal.see("kept")
    assert terminal.ended() == 0
    assert "sandbox/dev created" not in terminal.screen()
    shells.delete("dev")


def test_keys_and_the_windows_size_reach_the_command(shells, terminal):
    shells.create_running("keys")
    terminal.run("nodus", "exec", "-it", "sb/keys", "--", "sh")
    terminal.see("$ ")
    terminal.type("stty size")
    terminal.see("30 100")
    terminal.resize(72, 20)
    terminal.type("stty size")
    terminal.see("20 72")
    terminal.type("sleep 1000")
    runs(shells, "keys", "sleep 1000")
    terminal.key("C-c")
    terminal.type("echo then=$?")
    terminal.see("then=130")
    terminal.type("cat")
    runs(shells, "keys", "cat")  # before that the shell itself reads keys, and ^D is a byte like any other
    terminal.key("C-d")
    terminal.type("exit 3")
    assert terminal.ended() == 3
    terminal.clear()
    terminal.type("stty -a | grep -o ' echo ' | head -1; echo ty''ped")  # the terminal is as it was
    terminal.see("typed")
    assert any(line.strip() == "echo" for line in terminal.lines()), terminal.screen()
    shells.delete("keys")


def test_the_terminal_is_restored_when_we_are_killed(shells, terminal):
    shells.create_running("killed")
    terminal.run("nodus", "exec", "-it", "sb/killed", "--", "sh")
    terminal.see("$ ")
    terminal.type("echo in-$((40+2))")
    terminal.see("in-42")
    pid = int(subprocess.run(["pgrep", "-f", "nodus exec -it sb/killed"], capture_output=True, text=True,
                             check=True).stdout.split()[-1])
    os.kill(pid, signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM
    terminal.clear()
    terminal.type("stty -a | grep -c ' icanon '")
    wait_until(lambda: "1" in terminal.lines(), 20, "a terminal as it was")
    shells.delete("killed")


def test_without_a_name_it_is_deleted_on_exit(shells, terminal):
    terminal.run("nodus", "shell", *QUICK)
    terminal.see("created")
    terminal.see("$ ")
    wait_until(lambda: leftovers(shells), 60, "the Sandbox of the shell")
    terminal.type("exit 4")
    assert terminal.ended() == 4
    wait_until(lambda: not leftovers(shells), 60, "the end of it")


def test_keep_keeps_it(shells):
    ran = shells.nodus("shell", "--keep", *QUICK, stdin="echo hi > /workspace/x\n")
    assert ran.code == 0, ran.err
    name = ran.err.split("sandbox/")[1].split()[0]
    assert f"nodus shell sandbox/{name}" in ran.err
    assert shells.nodus("exec", f"sb/{name}", "--", "cat", "/workspace/x").out == "hi\n"
    shells.delete(name)


def test_a_script_on_standard_input(shells):
    """echo 'make test' | nodus shell sandbox/dev"""
    script = "echo out; echo err >&2; test -t 0 || echo no-terminal\nexit 5\n"
    ran = shells.nodus("shell", "sandbox/script", *QUICK, stdin=script)
    assert (ran.code, ran.out) == (5, "out\nno-terminal\n"), ran
    assert "err\n" in ran.err and "sandbox/script created\n" in ran.err
    again = shells.nodus("shell", "sandbox/script", stdin="echo again")
    assert (again.code, again.out) == (0, "again\n"), again
    shells.delete("script")


def test_rm_deletes_what_it_created_and_refuses_what_is_there(shells):
    ran = shells.nodus("shell", "sandbox/once", "--rm", *QUICK, stdin="exit 6")
    assert ran.code == 6, ran
    wait_until(lambda: shells.sandbox("once") is None, 60, "the end of it")
    shells.create_running("there")
    for flags in (["--rm"], ["--cpu", "2"], ["--image", "nodus/busybox"]):
        refused = shells.nodus("shell", "sandbox/there", *flags, stdin="echo never")
        assert (refused.code, refused.out) == (2, ""), refused
        assert "sandbox/there" in refused.err and "exists" in refused.err
    assert shells.sandbox("there")["status"]["starts"] == 1
    shells.delete("there")


def test_a_command_of_its_own(shells):
    shells.create_running("own")
    ran = shells.nodus("shell", "sandbox/own", "--", "wc", "-c", stdin="x" * 300_000)
    assert (ran.code, ran.out.strip()) == (0, "300000"), ran
    shells.delete("own")


def test_input_of_any_size_streams(shells):
    shells.create_running("pipes")
    data = os.urandom(3_000_000)
    ran = subprocess.run(["nodus", "exec", "-i", "sb/pipes", "--", "sha256sum"], env=shells.env, input=data,
                         capture_output=True, timeout=120, check=True)
    assert ran.stdout.decode().split()[0] == hashlib.sha256(data).hexdigest()
    echoed = subprocess.run(["nodus", "exec", "-i", "sb/pipes", "--", "cat"], env=shells.env, input=data,
                            capture_output=True, timeout=120, check=True)
    assert echoed.stdout == data
    shells.delete("pipes")


def test_interrupt_cancels_the_command(shells):
    shells.create_running("cancels", lifecycle={"idleTimeout": "0s"})
    running = shells.start_nodus("exec", "sb/cancels", "--", "sh", "-c", "echo began; sleep 1000")
    assert running.stdout.readline() == "began\n"
    running.send_signal(signal.SIGINT)
    assert running.wait(30) != 0
    wait_until(lambda: "Cancelled" in shells.nodus("get", "processes", "--sandbox", "sb/cancels").out, 20,
               "the record of its end")
    assert "sleep" not in shells.nodus("exec", "sb/cancels", "--", "ps").out
    shells.delete("cancels")


def test_control_c_in_a_terminal_cancels_the_command(shells, terminal):
    shells.create_running("control", lifecycle={"idleTimeout": "0s"})
    terminal.run("nodus", "exec", "sb/control", "--", "sh", "-c", "echo be''gan; sleep 1000")
    terminal.see("began")
    terminal.key("C-c")
    assert terminal.ended() == 128 + signal.SIGINT
    found = wait_until(lambda: shells.call("GET", "processes?fieldSelector=spec.sandbox=control")[2]["items"][-1:], 20,
                       "its record")
    wait_until(lambda: shells.call("GET", f"processes/{found[0]['metadata']['name']}")[2]["status"].get("reason")
               == "Cancelled", 20, "how it ended")
    assert "sleep" not in shells.nodus("exec", "sb/control", "--", "ps").out
    shells.delete("control")


def test_a_client_that_vanishes_ends_nothing(shells):
    shells.create_running("vanish", lifecycle={"idleTimeout": "0s"})
    running = shells.start_nodus("exec", "sb/vanish", "--", "sh", "-c", "echo began; sleep 3; echo done > /workspace/done")
    assert running.stdout.readline() == "began\n"
    running.kill()
    running.wait(30)
    wait_until(lambda: shells.nodus("exec", "sb/vanish", "--", "cat", "/workspace/done").out == "done\n", 60, "its work")
    shells.delete("vanish")
