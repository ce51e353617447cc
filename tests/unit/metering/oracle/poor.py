"""One organization whose money ends again and again, second by second, with what its stopped Sandboxes store.

Left out: a machine that was lost some seconds ago and whose older restore point costs more in these seconds than the start
gives back, so that money may have ended before it is known: there, machines are lost in the present second. And holds that
end, or credit that comes, within the second before a Grant's instant: what it had kept is forecast to stay until then."""
from credits import Credited, Lots
from facts import (CAUSES, GIB, MONTH, RESERVE_S, T0, US, Start, closed_line, offer_of, rate_of, second, storage_rate,
                   stored_line, times, usd)


class Poor(Credited):
    """One organization, second by second."""

    def __init__(self, rng, sandboxes, length):
        self.rng, self.facts, self.out = rng, [], []
        self.budgeted = rng.random() < 0.7
        self.price = [rng.randrange(1, 10**6) for _ in range(4)]
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
        self.points = {}  # uid → rate of the newest restore point
        self.stored = {}  # uid → [start, rate, first second, why nobody pays it], while it holds no slot
        self.gave_back = False
        self.credit_number = self.taken_away = self.lost = self.resumed = self.stored_late = 0
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
            self.judge_stored(begin + length)
            self.judge(begin + length, RESERVE_S - 1)
        for uid in list(self.stored):
            self.drop(uid, (begin + length) * US - 1, begin + length)
            self.judge_stored(begin + length)

    def live(self):
        return [s for _, s in sorted(self.open.items()) if s.live]

    def rate(self):
        return sum(s.rate for s in self.live()) + sum(rate for _, rate, _, why in self.stored.values() if not why)

    def tell_piece(self, uid, piece, at):
        number, rate, begin, why = piece
        if at > begin:
            self.out.append(stored_line(uid, number, rate, begin, at, why))
            self.charged += 0 if why else rate * (at - begin)

    def end_piece(self, uid, at):
        self.tell_piece(uid, self.stored.pop(uid), at)

    def judge_stored(self, at, ended="", again=None):
        """Where money `ended`, all that is stored is waived from there. It is paid again, from `again` on, as soon as
        all that is live, and it, can be paid for a second."""
        again = again or at
        paid = {uid: piece for uid, piece in self.stored.items() if ended and not piece[3]}
        for uid, (number, rate, _, _) in paid.items():
            self.stored[uid] = [number, rate, at, ended]
            self.tell_piece(uid, paid[uid], at)
        if any(why for *_, why in self.stored.values()):
            self.expire(again)
            self.tell(again)
        for uid, (number, rate, _, why) in sorted(self.stored.items()):
            if why and not self.why_not(rate):
                self.resumed += 1
                self.end_piece(uid, again)
                self.stored[uid] = [number, rate, again, ""]

    def why_not(self, rate):
        free = -self.set_aside() - self.rate() - rate
        if self.remaining + free < 0:
            return CAUSES["balance"]
        return CAUSES["budget"] if any(limit - self.spent[period] + free < 0
                                       for limit, period in self.budgets.values()) else ""

    def store(self, start, end, saved, at):
        """What it saved, or what was saved before it, from its `end` on, which may have been some seconds ago."""
        if saved is not None:
            self.points[start.uid] = storage_rate(saved, self.price)
        if start.uid not in self.points:
            return
        rate = self.points[start.uid]
        self.stored[start.uid] = [start.number, rate, end, "" if end < at else self.why_not(rate)]
        self.stored_late += end < at
        for past in range(end, at):
            self.spend(rate, past)

    def drop(self, uid, now, at):
        self.expire(at)
        self.tell(at)
        self.facts.append(f"K {now} {uid} {self.numbers[uid]} org {now}")
        self.end_piece(uid, max(second(now), self.stored[uid][2]))

    def spend(self, amount, at):
        """In the second that begins at `at`; negative: it comes back."""
        self.remaining -= amount
        self.used += amount
        self.spent["Total"] += amount
        self.spent["Monthly"] += amount if at >= self.month else 0

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
            told = len(self.facts)
            self.something(now, at)
            if len(self.facts) == told:  # nothing that anybody could hear of
                continue
            self.judge_stored(at)
            if any(lot.over for lot in self.lots.lots):
                self.expire(at)
            self.judge(at, RESERVE_S - 1)  # before this whole second
        self.expire(at)
        self.caps_end(at)
        self.judge_stored(at)
        self.budgets_end(at, at)
        self.tell(at)
        self.judge(at, RESERVE_S)
        rate = self.rate()
        if rate and rate > self.remaining - self.set_aside():
            self.out.append(f"exhausted org {at}")
            for start in self.live():
                start.live, start.why = False, "balance"
                self.out.append(f"until {start.uid} {start.number} {at}")
            self.judge_stored(at, CAUSES["balance"], at + 1)
        for _, rate, begin, why in self.stored.values():
            if not why and begin <= at:
                self.spend(rate, at)
        for start in self.open.values():
            if start.begin <= at:
                start.seconds.append(start.live)
                if start.live:
                    start.paid += start.rate
                    self.spend(start.rate, at)

    def caps_end(self, at):
        for start in self.live():
            if self.cap_ends(start):
                self.end_cap(start, at)

    def end_cap(self, start, at):
        start.live, start.capped = False, True
        self.order(start, "cap", at)

    def budgets_end(self, at, now_s):
        """A Budget that cannot pay the second that begins at `at` ends every line of the project."""
        rate = self.rate()
        full = [name for name, (limit, period) in sorted(self.budgets.items())
                if rate and self.spent[period] + self.set_aside() + rate > limit]
        self.out += [f"full {name} {at}" for name in full]
        self.exhausted.update({name: True for name in full})
        for start in self.live() if full else []:
            start.live, start.why = False, "budget"
            self.out.append(f"until {start.uid} {start.number} {at}")
            self.order(start, "budget", now_s)
        if full:
            self.judge_stored(at, CAUSES["budget"])
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
        start.late_cap |= start.cap is None and not start.live and second(now) > start.begin + start.paid // start.rate
        start.cap = some if start.cap is not None else max(some, self.totals.get(start.uid, 0) + start.paid)

    def judge(self, at, reserve):
        """Each start by its name: its own cap first, then the balance as those before it have left it."""
        if not self.short(at, reserve):
            return
        looks = self.facts[-1][0] not in "STM"  # those change nothing that is paid, and nobody looks
        if looks:
            self.tell(at)
        for start in self.live():
            if looks and self.cap_ends(start):
                self.end_cap(start, at)
            elif self.short(at, reserve):
                self.order(start, "balance", at)

    def short(self, at, reserve):
        rate = self.rate()
        return rate and self.pays(at, rate, reserve + 1) <= reserve

    def pays(self, at, rate, most):
        return self.lots.seconds(at, rate, self.remaining, self.used, self.set_aside(), most)

    def order(self, start, why, at):
        if not start.ordered and not start.stopping:
            start.ordered = True
            self.out.append(f"stop {start.uid} {start.number} {why} {at}")

    def something(self, now, at):
        uid = self.rng.choice(sorted(self.numbers))
        if self.rng.random() < 0.03 and not self.lots.expires_at(at):
            self.credit(now, at)
        elif self.rng.random() < (0.3 if self.gave_back else 0.003) and not self.lots.expires_at(at):
            self.gave_back = False
            self.take_away(now, at)
        elif self.budgeted and self.rng.random() < 0.03:
            self.put_budget(now, at)
        elif (uid in self.open or uid in self.funded) and self.rng.random() < 0.03:
            self.raise_cap(self.open.get(uid) or self.funded[uid], now)
        elif uid in self.open and self.rng.random() < 0.03:
            self.lose(uid, now, at)
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
            if self.rng.random() < 0.6 or self.lots.expires_at(at):
                return
            self.expire(at)
            self.tell(at)
            start = self.funded.pop(uid)
            if self.rng.random() < 0.2:
                self.facts.append(f"L {now} {uid} {start.number} org {now}")
                return
            start.reserved = now
            start.begin = max(at, self.ends.get(uid, 0), self.stored[uid][2] if uid in self.stored else 0)
            if uid in self.stored:
                self.end_piece(uid, start.begin)
            self.facts.append(f"R {now} {uid} {start.number} org {times(start, 0)}")
            self.open[uid] = start
        elif uid in self.stored and self.rng.random() < 0.02:
            self.drop(uid, now, at)
        else:
            self.expire(at)
            self.offer(uid, now)

    def lose(self, uid, now, at):
        """Its machine was lost: it ends at the last instant that is proven, and what it paid after that comes back."""
        start = self.open[uid]
        first = max(start.reserved, start.started)
        if self.points.get(uid, 0) > (start.rate if start.live else 0):
            first = max(first, (at - 1) * US + 1)
        proven = self.rng.randrange(first, now + 1)
        if start.stopping > proven:
            start.stopping = 0
        self.lost += second(proven) < second(now)
        self.gave_back = True  # what came back is taken away more often
        if second(proven) == at:  # all is settled up to where it ends
            self.expire(at)
            self.tell(at)
        self.release(uid, now, proven, lost=True)

    def decline(self, start, at):
        """As if it had not stopped, nor been told to: judged anew, by the cap and the balance of this moment."""
        start.stopping = 0
        start.ordered = False
        if start.capped or (start.live and self.cap_ends(start)):
            self.end_cap(start, at)
        elif not start.live:
            self.order(start, start.why, at)
        else:
            rate = self.rate()
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

    def release(self, uid, now, released, lost=False):
        start = self.open.pop(uid)
        start.released = released
        saved = None if lost or self.rng.random() < 0.4 else self.rng.randrange(20 * GIB)
        self.facts.append(f"E {now} {uid} {start.number} org {times(start, 3)}{'' if saved is None else f' {saved}'}")
        end = max(second(released), start.begin)
        if not start.live and not start.late_cap:
            start.capped |= self.cap_ends(start)  # in the same second the cap counts first
        for offset in range(end - start.begin, len(start.seconds)):
            if start.seconds[offset]:
                self.spend(-start.rate, start.begin + offset)
        del start.seconds[end - start.begin:]
        amount, text = closed_line(start, end, self.totals.get(uid, 0))
        self.totals[uid] = self.totals.get(uid, 0) + amount
        self.ends[uid] = end
        self.charged += amount
        self.out.append(text)
        self.store(start, end, saved, second(now))

    def project(self):
        return f"project p {usd(self.charged)} {usd(0)} {usd(0)} {usd(0)}"

    def account(self):
        held = sum(s.hold for s in self.funded.values())
        return f"account org {usd(self.credits)} {usd(self.charged)} {usd(0)} {usd(0)} {usd(held)} {usd(0)}"
