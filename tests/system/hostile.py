"""Requests that nobody should send: a seeded mutator over the committed corpus, an independent strict reader of
what was sent, and a reader of what came back. The reader of requests shares nothing with the server's own."""
import random
import re
import socket
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
HEADERS = [
    b"Content-Length: 0", b"Content-Length: 10", b"Content-Length: -1", b"Content-Length: 99999999999999999999",
    b"Content-Length: 5, 5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding : chunked", b"Host: other", b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c",
    b"Expect: 100-continue", b"Expect: x", b"Authorization: Basic eDp5", b"X-Nodus-Identity: {}",
    b"Range: bytes=0-0,5-5", b"Range: bytes=-99999999999999999999", b"If-Match: \"", b"Content-Type: text/html",
    b"Idempotency-Key: " + b"k" * 200, b" folded: yes", b"no colon", b": empty",
    b"Accept: application/json;as=Table;g=meta.k8s.io;v=v1", b"A: " + b"a" * 40_000, b"\xff: \xff", b"Trailer: x"]
JUNK = [b"\r\n", b"\n", b"\r", b"\0", b"\xff", b"%00", b"%2e%2e/", b"../", b"//", b"%", b"&path=/x", b"=", b"?", b"#",
        b" ", b"{", b"}", b"[", b"\"", b"null", b"1e999", b"-1", b"9223372036854775808", b"\xe2\x80\xae", b"A" * 5000,
        b"0\r\n\r\n", b"ffffffff\r\n"]
NUMBERS = [b"0", b"-1", b"1", b"4294967296", b"18446744073709551616", b"0x10", b"1e9", b""]


def mutate(request, rng, other):
    """One to five changes of any kind."""
    data = bytearray(request)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(10)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            data[at:at] = rng.choice(JUNK)
        elif kind == 2:
            del data[at:at + rng.randint(1, 20)]
        elif kind == 3:
            end = data.find(b"\r\n")
            if end > 0:
                data[end:end] = b"\r\n" + rng.choice(HEADERS)
        elif kind == 4:
            data[at:at] = data[at:at + rng.randint(1, 200)]
        elif kind == 5:
            data[at:] = other[rng.randrange(len(other)):]
        elif kind == 6:
            data += other
        elif kind == 7:
            del data[at:]
        elif kind == 8:
            digits = [m.span() for m in re.finditer(rb"\d+", bytes(data))]
            if digits:
                start, end = rng.choice(digits)
                data[start:end] = rng.choice(NUMBERS)
        else:
            lines = bytes(data).split(b"\r\n")
            one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            data = bytearray(b"\r\n".join(lines))
    return bytes(data)


TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"


def count_requests(data):
    """How many whole requests a strict reader finds before the end or the first fault, with how much of a fault or of
    an unfinished one follows (0 or 1): the most answers that may come."""
    count = 0
    while data:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return count, 1
        lines = data[:end].split(b"\r\n")
        data = data[end + 4:]
        if not re.fullmatch(rb"[A-Z]{1,20} [!-~]+ HTTP/1\.[01]", lines[0]):
            return count, 1
        fields = {}
        for line in lines[1:]:
            match = re.fullmatch(rb"(" + TOKEN + rb"):[ \t]*(.*?)[ \t]*", line, re.S)
            if not match or b"\n" in line or b"\r" in line or b"\0" in line:
                return count, 1
            fields.setdefault(match[1].lower(), []).append(match[2])
        length, encoding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
        if len(fields.get(b"host", [])) != 1 or (length and encoding) or len(length or []) > 1 or len(encoding or []) > 1:
            return count, 1
        if encoding:
            if encoding[0].lower() != b"chunked" or lines[0].endswith(b"1.0"):
                return count, 1
            while True:
                match = re.match(rb"([0-9A-Fa-f]{1,16})\r\n", data)
                if not match:
                    return count, 1
                size = int(match[1], 16)
                data = data[match.end():]
                if size == 0:
                    end = 0 if data.startswith(b"\r\n") else data.find(b"\r\n\r\n") + 2
                    if end == 1:
                        return count, 1
                    data = data[end + 2:]
                    break
                if data[size:size + 2] != b"\r\n":
                    return count, 1
                data = data[size + 2:]
        elif length:
            if not re.fullmatch(rb"[0-9]{1,18}", length[0]) or int(length[0]) > len(data):
                return count, 1
            data = data[int(length[0]):]
        count += 1
    return count, 0


@dataclass
class Answer:
    status: int
    fields: dict
    body: bytes
    whole: bool


def read_answers(data, heads):
    """The answers of a connection that has ended. `heads`: which of the requests, by number, were HEAD. Anything that is
    no HTTP answer is an AssertionError."""
    answers = []
    while data:
        end = data.find(b"\r\n\r\n")
        assert end >= 0, f"half a header: {data[:200]!r}"
        lines = data[:end].split(b"\r\n")
        data = data[end + 4:]
        match = re.fullmatch(rb"HTTP/1\.1 (\d{3}) .*", lines[0])
        assert match, f"no status line: {lines[0][:200]!r}"
        status = int(match[1])
        fields = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            assert colon and name and b" " not in name, f"no field: {line[:200]!r}"
            fields[name.lower().decode()] = value.strip().decode("latin-1")
        if status == 100:
            continue
        if status == 101:
            answers.append(Answer(status, fields, data, True))
            return answers
        body, whole = b"", True
        if len(answers) in heads or status in (204, 304):
            pass
        elif "content-length" in fields:
            size = int(fields["content-length"])
            body, data, whole = data[:size], data[size:], len(data) >= size
        elif fields.get("transfer-encoding") == "chunked":
            while True:
                match = re.match(rb"([0-9a-f]+)\r\n", data)
                if not match:
                    whole, data = False, b""
                    break
                size = int(match[1], 16)
                body += data[match.end():match.end() + size]
                data = data[match.end() + size + 2:]
                if size == 0:
                    break
        else:  # to HTTP/1.0: up to the end of the connection
            body, data = data, b""
        answers.append(Answer(status, fields, body, whole))
    return answers


def exchange(port, data, patience=20.0):
    """Sends everything, ends the sending side, reads to the end: (what came, whether the server ended it in time)."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused early: what it said is still there
        parts = []
        try:
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionError:
            pass
        except TimeoutError:
            return b"".join(parts), False
        return b"".join(parts), True


def load(folder, replacements):
    corpus = []
    for path in sorted((CORPUS / folder).iterdir()):
        text = path.read_bytes()
        for name, value in replacements.items():
            text = text.replace(b"{{" + name.encode() + b"}}", value.encode())
        corpus.append(text)
    assert corpus, folder
    return corpus


def stream(corpus, seed):
    """An endless stream of requests; the first ones are the corpus itself."""
    rng = random.Random(seed)
    yield from corpus
    while True:
        yield mutate(rng.choice(corpus), rng, rng.choice(corpus))
