"""A real terminal for tests: tmux on a server of its own, ended with the test."""
import os
import shlex
import subprocess

from stack import wait_until


class Terminal:
    """One window. What is typed goes through a pseudo-terminal, what is seen is the screen as a person sees it."""

    def __init__(self, env, directory, columns=100, rows=30):
        self.socket = str(directory / "tmux")
        self.env = env | {"TERM": "xterm-256color", "PS1": "$ ", "LC_ALL": "C.UTF-8"}
        self.runs = 0
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(rows),
                   "env", "-u", "TMUX", "bash", "--norc", "--noprofile")
        self._tmux("set-option", "-t", "t", "status", "off")
        self.pid = int(self._tmux("display-message", "-p", "-t", "t", "#{pid}"))

    def _tmux(self, *arguments):
        done = subprocess.run(["tmux", "-S", self.socket, *arguments], env=self.env, capture_output=True, text=True,
                              timeout=30)
        assert done.returncode == 0, f"tmux {arguments}: {done.stderr}"
        return done.stdout.strip()

    def screen(self):
        done = subprocess.run(["tmux", "-S", self.socket, "capture-pane", "-p", "-J", "-S", "-200", "-t", "t"], env=self.env,
                              capture_output=True, text=True, timeout=30)
        return done.stdout

    def lines(self):
        return [line.rstrip() for line in self.screen().splitlines() if line.strip()]

    def type(self, text, enter=True):
        self._tmux("send-keys", "-t", "t", "-l", "--", text)
        if enter:
            self.key("Enter")

    def key(self, name):
        self._tmux("send-keys", "-t", "t", name)

    def resize(self, columns, rows):
        self._tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def clear(self):
        self.key("C-l")
        self._tmux("clear-history", "-t", "t")

    def see(self, text, seconds=60):
        """Waits until `text` is on the screen."""
        try:
            wait_until(lambda: text in self.screen(), seconds, "the text")
        except AssertionError:
            raise AssertionError(f"{text!r} is not on the screen:\n{self.screen()}") from None

    def run(self, *command):
        """Runs a command in the terminal's own shell, which then tells its exit code; `ended()` waits for that."""
        self.runs += 1
        self.type(shlex.join(map(str, command)) + f"; echo \"code {self.runs}=$?.\"", enter=True)

    def ended(self, seconds=60):
        """The exit code of the last `run()`, and of no run before it, whose lines may still be on the screen."""
        mark = f"code {self.runs}="
        found = wait_until(lambda: [line for line in self.lines() if line.startswith(mark)], seconds, "the exit code")
        return int(found[-1].removeprefix(mark).rstrip("."))

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.env, capture_output=True, timeout=30, check=False)
