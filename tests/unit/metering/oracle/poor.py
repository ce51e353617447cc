"""One organization whose money ends again and again, second by second."""
from credits import Lots
from facts import GIB, MONTH, RESERVE_S, T0, US, Start, closed_line, offer_of, rate_of, second, times, usd


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
        self.remaining = self.credits = self.charged = self.used = 0
        self.lots = Lots()
        self.totals = {}
        self.ends = {}
        self.numbers = {f"u{i}": 0 for i in range(sandboxes)}
        self.funded, self.open = {}, {}
        self.credit_number = self.lost = 0
        self.budgets = {}   # name → [limit, period]
        self.thresholds, self.reached, self.exhausted = {}, {}, {}
        self.spent = {"Total": 0, "Monthly": 0}
        begin = rng.choice([T0, MONTH - length // 2])
        self.month = 0  # where the present one began
        for at in range(begin, begin + length):
            self.step(at)
        self.facts.append(f"N {(begin + length) * US - 1}")
        for uid in list(self.open):
            self.expire(begin + length)
            self.tell(begin + length)
            self.release(uid, (begin + length) * US - 1, (begin + length) * US - 1)

    def live(self):
        return [s for _, s in sorted(self.open.items()) if s.live]

    def set_aside(self):
        return sum(s.hold for s in self.funded.values())

    def step(self, at):
        """What happens within (at − 1, at), then deadlines at `at`, then the second [at, at + 1) is paid."""
        if at == MONTH:
            self.month = at
            self.spent["Monthly"] = 0
            for name, (_, period) in self.budgets.items():
                if period == "Monthly":
                    self.exhausted[name] = False
                    self.recover(name, 0, at)
        count = self.rng.choice([0, 0, 0, 0, 0, 1, 2])
        for now in sorted(self.rng.randrange((at - 1) * US + 1, at * US) for _ in range(count)):
            self.something(now, at)
            if any(lot.over for lot in self.lots.lots):
                self.expire(at)
            self.judge(at, RESERVE_S - 1)  # before this whole second
        self.expire(at)
        self.caps_end(at)
        self.budgets_end(at, at)
        self.tell(at)
        self.judge(at, RESERVE_S)
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
                    self.used += start.rate
                    self.spent["Total"] += start.rate
                    self.spent["Monthly"] += start.rate

    def caps_end(self, at):
        for start in self.live():
            if self.cap_ends(start):
                start.live, start.capped = False, True
                self.order(start, "cap", at)

    def budgets_end(self, at, now_s):
        """A Budget that cannot pay the second that begins at `at` ends every line of the project."""
        rate = sum(s.rate for s in self.live())
        full = [name for name, (limit, period) in sorted(self.budgets.items())
                if rate and self.spent[period] + self.set_aside() + rate > limit]
        self.out += [f"full {name} {at}" for name in full]
        self.exhausted.update({name: True for name in full})
        for start in self.live() if full else []:
            start.live, start.why = False, "budget"
            self.out.append(f"until {start.uid} {start.number} {at}")
            self.order(start, "budget", now_s)
        self.tell(at)

    def tell(self, at):
        """Each threshold once, until the Budget has recovered; all of them when it is full."""
        for name, (limit, period) in self.budgets.items():
            for percent in self.thresholds[name]:
                over = self.spent[period] * 100 >= limit * percent or self.exhausted[name]
                if over and percent > self.reached[name]:
                    self.reached[name] = percent
                    self.out.append(f"threshold {name} {percent} {at}")

    def recover(self, name, percent, at):
        if self.reached[name] > percent:
            self.reached[name] = percent
            self.out.append(f"recovered {name} {percent} {at}")

    def put_budget(self, now, at):
        self.expire(at)
        self.tell(at)
        name = self.rng.choice("ab")
        period = self.budgets[name][1] if name in self.budgets else self.rng.choice(["Total", "Monthly"])
        limit = self.rng.choice([0, self.spent[period]]) + self.rng.randrange(1, self.unit * 2000)
        self.budgets[name] = [limit, period]
        self.thresholds[name] = sorted(self.rng.sample([10, 25, 50, 80, 90, 100], 3))
        self.facts.append(f"B {now} org {name} {usd(limit)} {period} {','.join(map(str, self.thresholds[name]))}")
        self.exhausted[name] = self.spent[period] >= limit
        reached = self.reached.setdefault(name, 0)
        if self.spent[period] * 100 < limit * reached:
            self.recover(name, max((p for p in self.thresholds[name] if p < reached and
                                    self.spent[period] * 100 >= limit * p), default=0), at)
        self.tell(at)
        self.budgets_end(at, at)

    def raise_cap(self, start, now):
        some = self.totals.get(start.uid, 0) + start.paid + self.unit * self.rng.randrange(-50, 200)
        if some <= 0:
            return
        self.facts.append(f"M {now} {start.uid} {start.number} org {usd(some)}")
        if start.capped or (start.cap is not None and some <= start.cap):
            return
        start.cap = some if start.cap is not None else max(some, self.totals.get(start.uid, 0) + start.paid)

    def judge(self, at, reserve):
        rate = sum(s.rate for s in self.live())
        if rate and self.pays(at, rate, reserve + 1) <= reserve:
            if self.facts[-1][0] not in "STM":  # those change nothing that is paid, and nobody looks
                self.tell(at)
                self.caps_end(at)
            for start in self.live():
                self.order(start, "balance", at)

    def pays(self, at, rate, most):
        return self.lots.seconds(at, rate, self.remaining, self.used, self.set_aside(), most)

    def expire(self, at):
        for name, amount in self.lots.expire(at, self.used, self.remaining - self.set_aside()):
            self.credits -= amount
            self.remaining -= amount
            self.out.append(f"expired {name} {usd(amount)} {at}")

    def credit(self, now, at):
        self.expire(at)
        self.credit_number += 1
        name, amount = f"g{self.credit_number}", self.rng.randrange(1, self.unit * 600)
        priority = self.rng.choice([1, 5, 5, 9])
        expires = at + self.rng.choice([1, self.rng.randrange(1, 300)]) if self.rng.random() < 0.5 else 0
        self.facts.append(f"C {now} org {name} {usd(amount)} {priority} {expires}")
        self.credits += amount
        self.remaining += amount
        self.lots.add(name, amount, priority, expires, self.used)

    def order(self, start, why, at):
        if not start.ordered and not start.stopping:
            start.ordered = True
            self.out.append(f"stop {start.uid} {start.number} {why} {at}")

    def something(self, now, at):
        uid = self.rng.choice(sorted(self.numbers))
        if self.rng.random() < 0.03:
            self.credit(now, at)
        elif self.budgeted and self.rng.random() < 0.03:
            self.put_budget(now, at)
        elif (uid in self.open or uid in self.funded) and self.rng.random() < 0.03:
            self.raise_cap(self.open.get(uid) or self.funded[uid], now)
        elif uid in self.open and self.rng.random() < 0.03:
            self.lose(uid, now)
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
                self.expire(at)
                self.tell(at)
                self.facts.append(f"D {now} {uid} {start.number} org")
                self.decline(start, at)
            elif choice > (0.8 if start.ordered or start.stopping else 0.97):
                self.expire(at)
                self.tell(at)
                self.release(uid, now, now)
        elif uid in self.funded:
            if self.rng.random() < 0.6:
                return
            self.expire(at)
            self.tell(at)
            start = self.funded.pop(uid)
            if self.rng.random() < 0.2:
                self.facts.append(f"L {now} {uid} {start.number} org {now}")
                return
            start.reserved = now
            start.begin = max(at, self.ends.get(uid, 0))
            self.facts.append(f"R {now} {uid} {start.number} org {times(start, 0)}")
            self.open[uid] = start
        else:
            self.expire(at)
            self.offer(uid, now)

    def lose(self, uid, now):
        """Its machine was lost: it ends at the last instant that is proven, and what it paid after that comes back."""
        start = self.open[uid]
        proven = self.rng.randrange(max(start.reserved, start.started), now + 1)
        if start.stopping > proven:
            start.stopping = 0
        self.lost += second(proven) < second(now)
        self.release(uid, now, proven)

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
            if rate and self.pays(at, rate, RESERVE_S) < RESERVE_S:  # before this whole second
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

    def release(self, uid, now, released):
        start = self.open.pop(uid)
        start.released = released
        self.facts.append(f"E {now} {uid} {start.number} org {times(start, 3)}")
        end = max(second(released), start.begin)
        for offset in range(end - start.begin, len(start.seconds)):
            if start.seconds[offset]:
                self.remaining += start.rate
                self.used -= start.rate
                self.spent["Total"] -= start.rate
                self.spent["Monthly"] -= start.rate if start.begin + offset >= self.month else 0
        del start.seconds[end - start.begin:]
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
