"""Rule for overload, written from its description: recomputes the results of pops in shedding.json.

Usage: python3 shedding.py [--write]. Without --write: exit status 1 if a result differs.
"""

import bisect
import json
import pathlib
import sys

ONE = 1 << 16


def bucket(ns):
    if ns < 8:
        return ns
    octave = ns.bit_length() - 1
    return (octave - 2) * 8 + (ns >> (octave - 3) & 7)


def bounds(at):
    """Start of a bucket, and its width."""
    return (at, 1) if at < 8 else ((8 + at % 8) << (at // 8 - 1), 1 << (at // 8 - 1))


class Forecast:
    def __init__(self, samples):
        self.buckets = sorted(map(bucket, samples))
        self.mean = sum(samples) // len(samples) if samples else 0

    def within(self, left):
        if left <= 0 or not self.buckets:
            return 0 if left <= 0 else ONE
        at = bucket(left)
        start, width = bounds(at)
        below = bisect.bisect_left(self.buckets, at)
        inside = bisect.bisect_right(self.buckets, at) - below
        return (below * ONE + inside * ((left - start) * ONE // width) + ONE) // (len(self.buckets) + 1)


class Request:
    def __init__(self, name, pushed, left, forecast, number, queue):
        self.name, self.pushed, self.forecast, self.number = name, pushed, forecast, number
        self.due = None if left is None else pushed + left
        self.rank = pushed + queue.age_max if self.due is None else self.due
        self.turn = forecast.mean // queue.servers
        self.chance_at_push = self.chance(pushed)
        self.size = forecast.mean.bit_length()
        self.budget = None if left is None else left.bit_length()

    def chance(self, now):
        return ONE if self.due is None else self.forecast.within(self.due - now)

    def is_expired(self, now):
        return self.due is not None and self.due <= now


class Queue:
    def __init__(self, servers, age_max):
        self.servers, self.age_max = servers, age_max
        self.ranked, self.patient, self.doubtful, self.number = [], [], [], 0
        self.in_order, self.opened, self.losses = 8, 0, [(0, 0), (0, 0)]
        self.classes = [{}, {}]

    def push(self, now, name, left, forecast):
        if left == 0:
            return
        self.ranked.append(Request(name, now, left, forecast, self.number, self))
        self.ranked.sort(key=lambda r: (r.rank, r.number))
        self.number += 1

    def pop(self, now):
        next_one = self.choose(now)
        if next_one is None:
            return None
        for band in (self.ranked, self.patient, self.doubtful):
            if next_one in band:
                band.remove(next_one)
        lost = next_one.is_expired(now)
        self.record(now, next_one, 0 if lost else next_one.chance(now))
        return ("-" if lost else "+") + next_one.name

    def choose(self, now):
        for band in (self.doubtful, self.ranked):
            if band and band[0].is_expired(now):
                return band[0]
        if not self.ranked + self.patient + self.doubtful:
            return None
        without = [r for r in self.ranked + self.patient if r.due is None]
        oldest = min(without, key=lambda r: r.number, default=None)
        if oldest and self.in_order >= 8 and now - oldest.pushed >= self.age_max:
            self.in_order = 0
            return oldest
        self.in_order += 1
        floor = self.floor()
        for _ in range(128):
            if not self.ranked:
                break
            head = self.ranked[0]
            alone = len(self.ranked + self.patient + self.doubtful) == 1
            if alone or not self.costs_more_than_it_gains(now, head, floor):
                if head.due is not None:
                    return head
                break
            self.ranked.pop(0)
            band = self.patient if head.due is None else self.doubtful
            band.append(head)
            band.sort(key=lambda r: (r.due or 0, r.number))
        if self.doubtful and self.doubtful[-1].chance(now) >= ONE // 20:
            return self.doubtful[-1]
        return (self.ranked[:1] or self.patient[:1] or self.doubtful[-1:])[0]

    def costs_more_than_it_gains(self, now, head, floor):
        gain = ONE // 20 if head.due is None else head.chance(now)
        if head.due is not None and gain < floor * head.chance_at_push // ONE:
            return True
        if head.due is not None and self.is_favoured(head):
            # Budgets as short as this one lose less than longer ones, of which one waits.
            for behind in self.ranked[1:33]:
                is_longer = behind.due is not None and behind.size == head.size and behind.budget > head.budget
                if is_longer and not self.is_favoured(behind):
                    return True
        start, cost = now, 0
        for behind in self.ranked[1:33]:
            cost += behind.chance(start) - behind.chance(start + head.turn)
            if cost > gain:
                return True
            start += behind.turn
        return False

    def share_lost(self, size, budget, more):
        """Of requests of this size and budget (None: all budgets), with more that are not lost."""
        of_class = [window.get((size, budget), (0, 0)) for window in self.classes]
        lost, of = sum(c[0] for c in of_class), sum(c[1] for c in of_class) + more
        return lost * ONE // of if of else 0

    def is_favoured(self, request):
        everyone = self.share_lost(request.size, None, 0)
        own = self.share_lost(request.size, request.budget, request.chance_at_push)
        return everyone > ONE // 50 and own < everyone

    def record(self, now, request, chance):
        age = now - self.opened
        if age >= 1_000_000_000:
            previous = self.losses[1] if age < 2_000_000_000 else (0, 0)
            self.losses, self.opened = [previous, (0, 0)], now
            self.classes = [self.classes[1] if age < 2_000_000_000 else {}, {}]
        lost, requests = self.losses[1]
        self.losses[1] = (lost + ONE - chance, requests + 1)
        for budget in () if request.due is None else (request.budget, None):
            lost, of = self.classes[1].get((request.size, budget), (0, 0))
            at_push = request.chance_at_push
            self.classes[1][request.size, budget] = (lost + max(0, at_push - chance), of + at_push)

    def floor(self):
        lost, requests = (sum(column) for column in zip(*self.losses))
        return min(lost * 10 // (requests + 8), ONE) * (ONE * 4 // 5) // ONE


def text(vectors):
    def line(value):
        return json.dumps(value, separators=(",", ":"))

    forecasts = ",\n".join("    " + line(forecast) for forecast in vectors["forecasts"])
    queues = []
    for queue in vectors["queues"]:
        head = f'    {{"servers": {queue["servers"]}, "age_max": {queue["age_max"]}, "steps": [\n'
        queues.append(head + ",\n".join("      " + line(step) for step in queue["steps"]) + "\n    ]}")
    about, queues = json.dumps(vectors["about"]), ",\n".join(queues)
    return f'{{\n  "about": {about},\n  "forecasts": [\n{forecasts}\n  ],\n  "queues": [\n{queues}\n  ]\n}}\n'


path = pathlib.Path(__file__).with_name("shedding.json")
vectors = json.loads(path.read_text())
kinds = {forecast["kind"]: Forecast(forecast["samples"]) for forecast in vectors["forecasts"]}
wrong = 0
for forecast in vectors["forecasts"]:
    wrong += kinds[forecast["kind"]].mean != forecast["mean"]
    wrong += sum(kinds[forecast["kind"]].within(left) != chance for left, chance in forecast["within"])
for vector in vectors["queues"]:
    queue = Queue(vector["servers"], vector["age_max"])
    for step in vector["steps"]:
        if step[0] == "push":
            queue.push(step[1], step[2], step[4], kinds[step[3]])
        else:
            result = queue.pop(step[1])
            wrong += result != step[2]
            step[2] = result
print(f"{wrong} results differ")
if sys.argv[1:] == ["--write"]:
    path.write_text(text(vectors))
else:
    sys.exit(wrong > 0)
