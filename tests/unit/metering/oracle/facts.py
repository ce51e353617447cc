"""What both kinds of histories are made of: money time, rates, starts and the lines that they become."""
from fractions import Fraction
from math import floor

T0 = 1_800_000_000
US = 1_000_000
GIB = 1 << 30
PICO = 10**12
HOLD_S, RESERVE_S = 75, 15
MONTH = 1_801_440_000  # 2027-02-01T00:00:00Z
CAUSES = {"balance": "InsufficientCredits", "budget": "BudgetExceeded"}


def second(us):
    """Money time: rounded up."""
    return -(-us // US)


def usd(pico):
    sign = "-" if pico < 0 else ""
    return f"{sign}{abs(pico) // PICO}.{abs(pico) % PICO:012d}"


def rate_of(shape, price):
    """Pico-dollars per second, rounded half up once."""
    milli, memory, disk = shape
    exact = Fraction(milli, 1000) * price[0] + Fraction(memory, GIB) * price[1] + Fraction(disk, GIB) * price[2]
    return floor(exact * Fraction(1125, 1000) + Fraction(1, 2))


def storage_rate(size, price):
    return floor(Fraction(size, GIB) * price[3] * Fraction(1125, 1000) + Fraction(1, 2))


def stored_line(uid, number, rate, begin, end, why):
    """Of a restore point: `why` is empty when it is paid."""
    return f"stored {uid} {number} {begin} {end} {usd(0 if why else rate * (end - begin))} {why or 'paid'}"


def offer_of(now, uid, number, size, cap, recovery=False):
    return (f"O {now} {uid} {number} org {size[0]} {size[1]} {size[2]} {usd(cap) if cap is not None else '-'}"
            f"{' recovery' if recovery else ''}")


def shape(rng):
    return (rng.choice([250, 500, 1000, 2000, rng.randrange(250, 64001)]),
            rng.choice([GIB // 8, GIB, 4 * GIB, rng.randrange(GIB // 8, 256 * GIB)]),
            rng.choice([GIB, 10 * GIB, rng.randrange(GIB, 200 * GIB)]))


class Start:
    def __init__(self, uid, number, rate, cap):
        self.uid, self.number, self.rate, self.cap = uid, number, rate, cap
        self.hold = rate * HOLD_S
        self.reserved = self.started = self.stopping = self.released = 0
        self.begin = None   # its first second
        self.seconds = []   # (kind, paid) of each second from begin on
        self.paid = 0
        self.live = True    # money still runs
        self.why = ""       # what ended it, if not its cap
        self.capped = False
        self.late_cap = False  # added after something else had ended it
        self.ordered = False
        self.recovery = False  # by the platform itself: Starting and Stopping are waived


def kind_at(start, at, end):
    """What the slot did in the second [at, at + 1)."""
    stopping = min(second(start.stopping), end) if start.stopping else end
    started = min(second(start.started), stopping) if start.started else stopping
    if at < started:
        return "Starting"
    return "Running" if at < stopping else "Stopping"


def closed_line(start, end, total):
    """The expected output of a close, from the seconds walked one by one."""
    lines = []
    amount = 0
    for offset, paid in enumerate(start.seconds):
        at = start.begin + offset
        key = (kind_at(start, at, end), paid)
        if lines and lines[-1][0] == key:
            lines[-1][2] = at + 1
        else:
            lines.append([key, at, at + 1])
        amount += start.rate if paid else 0
    cause = "MaxCostReached" if start.capped else CAUSES.get(start.why)  # what ended first
    text = f"closed {start.uid} {start.number} {usd(amount)} {usd(total + amount)}"
    for (kind, paid), begin, finish in lines:
        charged = usd(start.rate * (finish - begin) if paid else 0)
        why = "PlatformRecovery" if start.recovery and kind != "Running" else cause
        text += f" {kind},{begin},{finish},{charged},{'paid' if paid else why}"
    return amount, text


def times(start, upto):
    known = [start.reserved, start.started, start.stopping, start.released]
    return " ".join(str(t if i <= upto else 0) for i, t in enumerate(known))
