"""Rule for the budget fields of one request, written from its description: recomputes "received" in vectors.json.

Each line of each field is read by itself. The shortest readable one applies; what is known of the way so far comes
from greenwave-budget. The first unreadable line is counted, and changes nothing else. Envoy's 0 means no timeout.

Usage: python3 received.py [--write]. Without --write: exit status 1 if a result differs.
"""

import itertools
import json
import pathlib
import re
import sys

DEFAULT_US, LONGEST_US = 500_000, 3_600_000_000
UNITS_US = {"H": 3_600_000_000, "M": 60_000_000, "S": 1_000_000, "m": 1_000, "u": 1, "n": 0.001}
BUDGET = {
    "absent": [],
    "valid": ["expected=400000, remaining=300000"],
    "garbled": ["expected=tomorrow"],
    "repeated": ["expected=400000, remaining=300000", "expected=200000, remaining=50000"],
    "half": ["tomorrow", "expected=400000, remaining=300000"],
    "zero": ["expected=400000, remaining=0"],
    "negative": ["expected=400000, remaining=-1"],
    "huge": ["expected=31536000000000, remaining=31536000000000"],
    "not ASCII": ["expected=400000, remaining=３00000"],
    "long past": ["expected=3600000000, remaining=500"],
}
GRPC = {
    "absent": [],
    "valid": ["200m"],
    "garbled": ["soon"],
    "repeated": ["250m", "100m"],
    "half": ["soon", "200m"],
    "zero": ["0m"],
    "negative": ["-5m"],
    "huge": ["8760H"],
    "not ASCII": ["２00m"],
}
ENVOY = {
    "absent": [],
    "valid": ["150"],
    "garbled": ["150ms"],
    "repeated": ["160", "120"],
    "half": ["150ms", "150"],
    "zero": ["0"],
    "negative": ["-5"],
    "huge": ["31536000000"],
    "not ASCII": ["１50"],
}


def number(text):
    """The number, or its fault."""
    if not re.fullmatch(r"-?[0-9]+", text):
        return "garbled"
    return "negative" if int(text) < 0 else int(text)


def budget(line):
    parts = dict(part.split("=") for part in line.split(", ")) if "=" in line else {}
    values = [number(parts.get(key, "")) for key in ("expected", "remaining")]
    faults = [value for value in values if isinstance(value, str)]
    return faults[0] if faults else (values[1], values[0] - values[1])


def grpc(line):
    value = number(line[:-1]) if line[-1] in UNITS_US else "garbled"
    return value if isinstance(value, str) else (int(value * UNITS_US[line[-1]]), 0)


def envoy(line):
    value = number(line)
    return value if isinstance(value, str) else (value * 1_000, 0) if value else None


def received(budgets, timeouts, expected):
    own, others = [budget(line) for line in budgets], [grpc(line) for line in timeouts]
    others += [envoy(line) for line in expected]
    faults = [value for value in own + others if isinstance(value, str)][:1]
    own = [value for value in own if isinstance(value, tuple)]
    others = [value for value in others if isinstance(value, tuple)]
    if not own + others:
        return {"left": DEFAULT_US, "elapsed": 0, "faults": faults or ["missing"]}
    elapsed = min(own)[1] if own else 0
    left = min(value[0] for value in own + others)
    result = {"left": min(left, LONGEST_US), "elapsed": elapsed, "faults": faults}
    if elapsed > LONGEST_US:
        result["elapsed"] = 0
        result["faults"] = faults + ["absurd"]
    return result


path = pathlib.Path(__file__).with_name("vectors.json")
before = path.read_text()
start = before.find(',\n  "received": {')
head = before[: start if start >= 0 else before.rindex("\n}")]
rows = []
for states in itertools.product(BUDGET, GRPC, ENVOY):
    result = received(BUDGET[states[0]], GRPC[states[1]], ENVOY[states[2]])
    rows.append("      " + json.dumps([*states, result], ensure_ascii=False))
fields = {"greenwave-budget": BUDGET, "grpc-timeout": GRPC, "x-envoy-expected-rq-timeout-ms": ENVOY}
text = head + ',\n  "received": {\n    "about": "Lines of the three fields of one request, by the names in fields, and the result: '
text += 'microseconds left and elapsed, faults counted. Results by received.py.",\n'
text += f'    "default": {DEFAULT_US}, "longest": {LONGEST_US},\n    "fields": '
text += json.dumps(fields, ensure_ascii=False) + ',\n    "cases": [\n' + ",\n".join(rows) + "\n    ]\n  }\n}\n"
json.loads(text)
print("the results are the same" if text == before else "the results differ")
if sys.argv[1:] == ["--write"]:
    path.write_text(text)
else:
    sys.exit(text != before)
