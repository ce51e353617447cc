"""Every `nodus` command that a page of this repository or the program's own help shows is one that the program
understands: without a server it must get as far as asking for one."""
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODUS = sys.argv[1]
PAGES = ["README.md", "cli/README.md", "CONTRIBUTING.md", "docs/**/*.md", "services/*/README.md", "examples/**/*.md"]
COMMAND = re.compile(r"(?:^|[|;(]\s*|\$ )(nodus [a-z-][^\n]*)")


def run(arguments):
    env = {"PATH": os.environ["PATH"]}
    return subprocess.run([NODUS, *arguments], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                          check=False)


def code_lines(text):
    """Lines of indented and fenced code, with what was continued joined."""
    fenced, out = False, []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            out.append(line.strip())
    return out


def commands_of(lines):
    for line in lines:
        for found in COMMAND.finditer(line):
            words = []
            lexer = shlex.shlex(found.group(1), posix=True, punctuation_chars=True)
            lexer.whitespace_split, lexer.commenters = True, "#"
            for word in lexer:
                if set(word) <= set("|;&()<>"):
                    break
                words.append(word)
            yield words[1:]


def helps():
    top = run(["--help"])
    assert top.returncode == 0, top
    pages = [top.stdout]
    for name in sorted(set(re.findall(r"^  ([a-z]+)", top.stdout, re.M))):
        shown = run([name, "--help"])
        assert shown.returncode == 0, (name, shown.stderr)
        pages.append(shown.stdout)
    return [line.strip() for page in pages for line in page.splitlines() if line.startswith("  ") and "nodus " in line]


def main():
    faults, count = [], 0
    sources = [("--help", helps())]
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            sources.append((str(page.relative_to(ROOT)), code_lines(page.read_text())))
    for where, lines in sources:
        for words in commands_of(lines):
            count += 1
            done = run(words)
            understood = done.returncode == 0 or "NODUS_API is not set" in done.stderr
            if not understood:
                faults.append(f"{where}: nodus {shlex.join(words)}\n    {done.stderr.strip()}")
    print("\n".join(faults))
    print(f"{count} commands, {len(faults)} faults")
    sys.exit(1 if faults or count < 30 else 0)


main()
