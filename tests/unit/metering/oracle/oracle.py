#!/usr/bin/python3
"""The bill recomputed by another method: seconds are walked one by one with exact fractions, straight from the facts.

    oracle.py REPLAY [--intervals N] [--seed S]     exits 1 at the first difference, with the history that shows it

Two kinds of histories. "Rich": much credit, many Sandboxes, price changes and caps; messages of different Sandboxes are
mixed at random, repeated, and old ones come again. "Poor": one organization whose balance and caps end again and
again; facts come in order, deadlines on time; its project has Budgets that are changed, and caps are raised. In both,
idle stops are declined."""
import argparse
import random
import subprocess
import sys
from collections import Counter

from facts import CAUSES, GIB, MONTH, PICO, RESERVE_S, T0, US, Start, closed_line, offer_of, rate_of, second, shape, times, usd

ENDS = [*CAUSES.values(), "MaxCostReached"]


def jitter(rng, spread):
    """Microseconds; now and then a whole second, where rounding changes nothing."""
    return rng.randrange(spread) * US if rng.random() < 0.1 else rng.randrange(1, spread * US)


def rich(rng, sandboxes, starts):
    facts, expected = [], {}
    prices = [(T0 * US - 1, [rng.randrange(1, 10**7) for _ in range(3)])]
    for _ in range(3):
        prices.append((prices[-1][0] + rng.randrange(1, 4000 * US), [rng.randrange(0, 10**7) for _ in range(3)]))
    for number, (effective, values) in enumerate(prices):
        facts.append((0, f"P v{number} {effective} " + " ".join(usd(v) for v in values)))
    facts.append((0, f"C {T0 * US} org g1 {usd(10**9 * PICO)}"))
    queues = []
    for box in range(sandboxes):
        uid, now, total, end, queue, out = f"u{box}", T0 * US, 0, 0, [], []
        # A cap that is spent would refuse later starts; those are the poor histories' business.
        for number in range(1, starts + 1):
            now += jitter(rng, 300)
            size = shape(rng)
            price = [values for effective, values in prices if effective <= now][-1]
            start = Start(uid, number, rate_of(size, price), None)
            cap = None
            if number == starts and rng.random() < 0.5:
                some = rng.choice([rng.randrange(start.rate * 200 + 1), start.rate * rng.randrange(200)])
                cap = total + start.hold + some
            queue.append((now, offer_of("{now}", uid, number, size, cap)))
            out.append(f"funded {uid} {number} {usd(start.rate)} {usd(start.hold)}")
            if rng.random() < 0.1:
                queue.append((now + 1, f"L {{now}} {uid} {number} org {now + 1}"))
                continue
            # Sometimes the slot is reserved in the very second in which the previous one was released.
            start.reserved = now = now + (rng.randrange(1, US) if rng.random() < 0.3 else jitter(rng, 60))
            if rng.random() < 0.9:
                start.started = now = now + jitter(rng, 20)
            declined = []
            while rng.random() < 0.15:  # an idle stop that is declined
                start.stopping = now = now + jitter(rng, 400)
                declined.append((now, f"T {{now}} {uid} {number} org {times(start, 2)}"))
                now += jitter(rng, 10)
                declined.append((now, f"D {{now}} {uid} {number} org"))
                start.stopping = 0
            if rng.random() < 0.9:
                start.stopping = now = now + jitter(rng, 400)
            start.released = now = now + jitter(rng, 30)
            if rng.random() < 0.05:  # a lost machine: released before what it had reported
                start.released = now = rng.randrange(start.reserved, now + 1)
            for upto, letter in enumerate("RSTE"):
                queue += declined if letter == "T" else []
                known = [start.reserved, start.started, start.stopping, start.released][upto]
                if known and (letter in "RE" or rng.random() < 0.8):
                    queue.append((max(known, now) if letter == "E" else known,
                                  f"{letter} {{now}} {uid} {number} org {times(start, upto)}"))
            start.begin = max(second(start.reserved), end)
            end = max(second(start.released), start.begin)
            spent = total
            for _ in range(start.begin, end):
                pays = cap is None or spent + start.rate <= cap
                spent += start.rate if pays else 0
                start.seconds.append(pays)
                cap = cap if pays else -1
                start.capped = cap == -1
            amount, text = closed_line(start, end, total)
            total += amount
            out.append(text)
        queues.append(queue)
        expected[uid] = out
    # Mix the Sandboxes; repeat a message at once or bring an old one again. `now` follows each Sandbox's own offers,
    # because the price in force is judged by the clock.
    heads = [0] * len(queues)
    merged = []
    waiting = [i for i, q in enumerate(queues) if q]
    while waiting:
        i = rng.choice(waiting)
        merged.append(queues[i][heads[i]])
        if rng.random() < 0.15:
            merged.append(queues[i][rng.randrange(heads[i] + 1)])
        heads[i] += 1
        if heads[i] == len(queues[i]):
            waiting.remove(i)
    facts += [(0, text.format(now=now)) for now, text in merged]
    return [text for _, text in facts], expected


class Poor:
    """One organization, second by second."""

    def __init__(self, rng, sandboxes, length):
        self.rng, self.facts, self.out = rng, [], []
        self.budgeted = rng.random() < 0.7
        self.price = [rng.randrange(1, 10**6) for _ in range(3)]
        self.facts.append("P v0 0 " + " ".join(usd(v) for v in self.price))
        # A few sizes of about the same price, so that money and Sandboxes end at about the same pace.
        self.sizes = [(rng.randrange(500, 4001), rng.randrange(GIB // 2, 4 * GIB), rng.randrange(GIB, 9 * GIB))
                      for _ in range(3)]
        self.unit = rate_of(self.sizes[0], self.price)
        self.remaining = self.credits = self.charged = 0
        self.totals = {}
        self.ends = {}
        self.numbers = {f"u{i}": 0 for i in range(sandboxes)}
        self.funded, self.open = {}, {}
        self.credit_number = 0
        self.budgets = {}   # name → [limit, period]
        self.spent = {"Total": 0, "Monthly": 0}
        begin = rng.choice([T0, MONTH - length // 2])
        for at in range(begin, begin + length):
            self.step(at)
        for uid in list(self.open):
            self.release(uid, (begin + length) * US - 1)

    def live(self):
        return [s for _, s in sorted(self.open.items()) if s.live]

    def set_aside(self):
        return sum(s.hold for s in self.funded.values())

    def step(self, at):
        """What happens within (at − 1, at), then deadlines at `at`, then the second [at, at + 1) is paid."""
        if at == MONTH:
            self.spent["Monthly"] = 0
        count = self.rng.choice([0, 0, 0, 0, 0, 1, 2])
        for now in sorted(self.rng.randrange((at - 1) * US + 1, at * US) for _ in range(count)):
            self.something(now, at)
        for start in self.live():
            if self.cap_ends(start):
                start.live, start.capped = False, True
                self.order(start, "cap", at)
        self.budgets_end(at, at)
        self.judge(at)
        rate = sum(s.rate for s in self.live())
        if rate > self.remaining - self.set_aside() and self.live():
            self.out.append(f"exhausted org {at}")
            for start in self.live():
                start.live, start.why = False, "balance"
                self.out.append(f"until {start.uid} {start.number} {at}")
        for start in self.open.values():
            if start.begin <= at:
                start.seconds.append(start.live)
                if start.live:
                    start.paid += start.rate
                    self.remaining -= start.rate
                    self.spent["Total"] += start.rate
                    self.spent["Monthly"] += start.rate

    def budgets_end(self, at, now_s):
        """A Budget that cannot pay the second that begins at `at` ends every line of the project."""
        rate = sum(s.rate for s in self.live())
        full = [name for name, (limit, period) in sorted(self.budgets.items())
                if rate and self.spent[period] + self.set_aside() + rate > limit]
        self.out += [f"full {name} {at}" for name in full]
        for start in self.live() if full else []:
            start.live, start.why = False, "budget"
            self.out.append(f"until {start.uid} {start.number} {at}")
            self.order(start, "budget", now_s)

    def put_budget(self, now, at):
        name = self.rng.choice("ab")
        period = self.budgets[name][1] if name in self.budgets else self.rng.choice(["Total", "Monthly"])
        limit = self.rng.choice([0, self.spent[period]]) + self.rng.randrange(1, self.unit * 2000)
        self.budgets[name] = [limit, period]
        self.facts.append(f"B {now} org {name} {usd(limit)} {period}")
        self.budgets_end(at, at)

    def raise_cap(self, start, now):
        some = self.totals.get(start.uid, 0) + start.paid + self.unit * self.rng.randrange(-50, 200)
        if some <= 0:
            return
        self.facts.append(f"M {now} {start.uid} {start.number} org {usd(some)}")
        if start.capped or (start.cap is not None and some <= start.cap):
            return
        start.cap = some if start.cap is not None else max(some, self.totals.get(start.uid, 0) + start.paid)

    def judge(self, at):
        rate = sum(s.rate for s in self.live())
        if rate and (self.remaining - self.set_aside()) // rate <= RESERVE_S:
            for start in self.live():
                self.order(start, "balance", at)

    def order(self, start, why, at):
        if not start.ordered and not start.stopping:
            start.ordered = True
            self.out.append(f"stop {start.uid} {start.number} {why} {at}")

    def something(self, now, at):
        uid = self.rng.choice(sorted(self.numbers))
        if self.rng.random() < 0.03:
            self.credit_number += 1
            amount = self.rng.randrange(1, self.unit * 600)
            self.facts.append(f"C {now} org g{self.credit_number} {usd(amount)}")
            self.credits += amount
            self.remaining += amount
        elif self.budgeted and self.rng.random() < 0.03:
            self.put_budget(now, at)
        elif (uid in self.open or uid in self.funded) and self.rng.random() < 0.03:
            self.raise_cap(self.open.get(uid) or self.funded[uid], now)
        elif uid in self.open:
            start = self.open[uid]
            choice = self.rng.random()
            if choice < 0.3 and not start.started and not start.stopping:
                start.started = now
                self.facts.append(f"S {now} {uid} {start.number} org {times(start, 1)}")
            elif choice < 0.33 and not start.stopping:
                start.stopping = now
                self.facts.append(f"T {now} {uid} {start.number} org {times(start, 2)}")
            elif 0.33 <= choice < 0.43 and start.stopping:
                self.facts.append(f"D {now} {uid} {start.number} org")
                self.decline(start, at)
            elif choice > (0.8 if start.ordered or start.stopping else 0.97):
                self.release(uid, now)
        elif uid in self.funded:
            if self.rng.random() < 0.6:
                return
            start = self.funded.pop(uid)
            if self.rng.random() < 0.2:
                self.facts.append(f"L {now} {uid} {start.number} org {now}")
                return
            start.reserved = now
            start.begin = max(at, self.ends.get(uid, 0))
            self.facts.append(f"R {now} {uid} {start.number} org {times(start, 0)}")
            self.open[uid] = start
        else:
            self.offer(uid, now)

    def decline(self, start, at):
        """As if it had not stopped, nor been told to: judged anew, by the cap and the balance of this moment."""
        start.stopping = 0
        start.ordered = False
        if start.capped or (start.live and self.cap_ends(start)):
            start.live, start.capped = False, True
            self.order(start, "cap", at)
        elif not start.live:
            self.order(start, start.why, at)
        else:
            rate = sum(s.rate for s in self.live())
            if rate and (self.remaining - self.set_aside()) // rate < RESERVE_S:  # before this whole second
                self.order(start, "balance", at)

    def cap_ends(self, start):
        return start.cap is not None and self.totals.get(start.uid, 0) + start.paid + start.rate > start.cap

    def offer(self, uid, now):
        self.numbers[uid] += 1
        number, size, cap = self.numbers[uid], self.rng.choice(self.sizes), None
        if self.rng.random() < 0.4:
            some = self.unit * self.rng.randrange(50, 400) + self.rng.choice([0, self.rng.randrange(self.unit)])
            cap = self.totals.get(uid, 0) + some
        start = Start(uid, number, rate_of(size, self.price), cap)
        self.facts.append(offer_of(now, uid, number, size, cap))
        available = self.remaining - self.set_aside() - sum(s.hold for s in self.live())
        left = None if cap is None else cap - self.totals.get(uid, 0)
        if available < start.hold:
            self.out.append(f"refused {uid} {number} balance {usd(start.hold)} {usd(max(0, available))}")
        elif left is not None and left < start.hold:
            self.out.append(f"refused {uid} {number} maxCostUSD {usd(start.hold)} {usd(max(0, left))}")
        elif self.least() is not None and self.least()[0] < start.hold:
            left, name = self.least()
            self.out.append(f"refused {uid} {number} budget/{name} {usd(start.hold)} {usd(max(0, left))}")
        else:
            self.out.append(f"funded {uid} {number} {usd(start.rate)} {usd(start.hold)}")
            self.funded[uid] = start

    def least(self):
        """What the Budget with the least left leaves to a new start, and its name."""
        held = self.set_aside() + sum(s.hold for s in self.live())
        return min(((limit - self.spent[period] - held, name)
                    for name, (limit, period) in self.budgets.items()), default=None)

    def release(self, uid, now):
        start = self.open.pop(uid)
        start.released = now
        self.facts.append(f"E {now} {uid} {start.number} org {times(start, 3)}")
        end = max(second(now), start.begin)
        amount, text = closed_line(start, end, self.totals.get(uid, 0))
        self.totals[uid] = self.totals.get(uid, 0) + amount
        self.ends[uid] = end
        self.charged += amount
        self.out.append(text)

    def project(self):
        return f"project p {usd(self.charged)} {usd(0)} {usd(0)} {usd(0)}"

    def account(self):
        held = sum(s.hold for s in self.funded.values())
        return f"account org {usd(self.credits)} {usd(self.charged)} {usd(0)} {usd(0)} {usd(held)} {usd(0)}"


def run(replay, facts):
    done = subprocess.run([replay], input="\n".join(facts) + "\n", capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"the replay failed: {done.stderr}")
    return done.stdout.splitlines()


def differ(what, facts, wanted, got):
    for number, (a, b) in enumerate(zip(wanted + ["(end)"], got + ["(end)"])):
        if a != b:
            uid = a.split()[1] if len(a.split()) > 1 else "?"
            print(f"{what}, output {number}:\n  oracle  {a}\n  metering {b}\nfacts of {uid}:")
            print("\n".join(f for f in facts if f" {uid} " in f or f.startswith(("P", "C")))[:4_000])
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("replay")
    parser.add_argument("--intervals", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seed = options.seed or random.SystemRandom().randrange(1, 10**9)
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    intervals = poor = 0
    seen = Counter()
    while intervals < options.intervals:
        facts, expected = rich(rng, sandboxes=100, starts=6)
        got = {uid: [] for uid in expected}
        for line in run(options.replay, facts):
            word, uid = line.split()[:2]
            if word in ("error", "exhausted", "refused"):
                differ("rich", facts, [], [line])
            if word in ("funded", "closed"):
                got[uid].append(line)
        for uid, wanted in expected.items():
            differ("rich", facts, wanted, got[uid])
            intervals += sum(line.startswith("closed") for line in wanted)
        for _ in range(4):
            world = Poor(rng, sandboxes=5, length=1500)
            differ("poor", world.facts, world.out + [world.project(), world.account()], run(options.replay, world.facts))
            closed = sum(line.startswith("closed") for line in world.out)
            poor += closed
            intervals += closed
            seen["declined"] += sum(fact.startswith("D") for fact in world.facts)
            seen["raised"] += sum(fact.startswith("M") for fact in world.facts)
            for line in world.out:
                marks = [w for w in ("balance", "cap", "maxCostUSD", "budget", *ENDS) if w in line]
                seen[" ".join([line.split()[0]] + marks)] += 1
    print(f"{intervals} intervals, {poor} of them where money was short: no difference")
    print("where money was short: " + ", ".join(f"{n} {what}" for what, n in sorted(seen.items())))
    needed = {"exhausted", "until", "declined", "stop balance", "stop cap", "refused balance", "refused maxCostUSD", "full",
              "stop budget", "refused budget", "raised", *(f"closed {cause}" for cause in ENDS)}
    if intervals >= 5000 and not needed <= set(seen):
        sys.exit("the histories did not reach: " + ", ".join(sorted(needed - set(seen))))


if __name__ == "__main__":
    main()
