"""Much credit, many Sandboxes, price changes, caps and starts that the platform makes by itself; messages come mixed,
repeated and again."""
from facts import (GIB, PICO, T0, US, Start, closed_line, kind_at, offer_of, rate_of, second, shape, storage_rate,
                   stored_line, times, usd)


def jitter(rng, spread):
    """Microseconds; now and then a whole second, where rounding changes nothing."""
    return rng.randrange(spread) * US if rng.random() < 0.1 else rng.randrange(1, spread * US)


def rich(rng, sandboxes, starts):
    facts, expected = [], {}
    prices = [(T0 * US - 1, [rng.randrange(1, 10**7) for _ in range(4)])]
    for _ in range(3):
        prices.append((prices[-1][0] + rng.randrange(1, 4000 * US), [rng.randrange(0, 10**7) for _ in range(4)]))
    for number, (effective, values) in enumerate(prices):
        facts.append((0, f"P v{number} {effective} " + " ".join(usd(v) for v in values)))
    facts.append((0, f"C {T0 * US} org g1 {usd(10**9 * PICO)}"))
    queues = []
    for box in range(sandboxes):
        uid, now, total, end, queue, out = f"u{box}", T0 * US, 0, 0, [], []
        last_rate = None  # of the start that was released last
        stored = None  # rate of the newest restore point, once it is stored
        # A cap that is spent would refuse later starts; those are the poor histories' business.
        for number in range(1, starts + 1):
            now += jitter(rng, 300)
            size = shape(rng)
            price = [values for effective, values in prices if effective <= now][-1]
            recovery = rng.random() < 0.2
            rate = rate_of(size, price)
            start = Start(uid, number, rate if not recovery or last_rate is None else min(rate, last_rate), None)
            start.recovery = recovery
            cap = None
            if number == starts and rng.random() < 0.5:
                some = rng.choice([rng.randrange(start.rate * 200 + 1), start.rate * rng.randrange(200)])
                cap = total + start.hold + some
            queue.append((now, offer_of("{now}", uid, number, size, cap, recovery)))
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
                saved = ""
                if letter == "E" and rng.random() < 0.7:
                    saved = f" {rng.choice([0, rng.randrange(1, 10**6), rng.randrange(1, 200 * GIB)])}"
                if known and (letter in "RE" or rng.random() < 0.8):
                    queue.append((max(known, now) if letter == "E" else known,
                                  f"{letter} {{now}} {uid} {number} org {times(start, upto)}{saved}"))
            start.begin = max(second(start.reserved), end)
            if stored is not None and start.begin > end:
                out.append(stored_line(uid, since, stored, end, start.begin, ""))
            if saved:
                price = [values for effective, values in prices if effective <= start.released][-1]
                stored = storage_rate(int(saved), price)
            since = number
            end = max(second(start.released), start.begin)
            spent = total
            for at in range(start.begin, end):
                counts = not recovery or kind_at(start, at, end) == "Running"
                start.capped |= counts and cap is not None and spent + start.rate > cap
                pays = counts and not start.capped
                spent += start.rate if pays else 0
                start.seconds.append(pays)
            last_rate = start.rate
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
