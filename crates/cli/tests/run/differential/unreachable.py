"""Ends by ICMP errors, each code, and by silence: what the calls say while a connection opens, and later; datagrams."""
import errno, select, signal, socket, sys, time
OURS, PEER = sys.argv[1:3]
V6 = ":" in OURS
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
CODES = range(0, 7) if V6 else range(0, 16)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
def name(code): return errno.errorcode.get(code, str(code))
def far(code): return f"fd00:8::{code:x}" if V6 else f"10.8.3.{code}"
SILENT = "fd00:8:0:0:1::1" if V6 else "10.8.4.1"
def said(f):
    try: return str(f())
    except socket.timeout: return "nothing"
    except OSError as e: return name(e.errno)
def tcp(): return socket.socket(FAMILY, socket.SOCK_STREAM)
def bits(s):
    p = select.poll(); p.register(s, 1 | 4 | 0x2000); m = dict(p.poll(0)).get(s.fileno(), 0)
    return "|".join(n for b, n in [(1, "IN"), (4, "OUT"), (8, "ERR"), (16, "HUP"), (0x2000, "RDHUP")] if m & b) or "none"
def settle(s, wanted):
    p = select.poll(); p.register(s, wanted); p.poll(10000)
def so_error(s): return name(s.getsockopt(1, 4))
ORDERS = {"SO_ERROR": [so_error, so_error], "poll": [bits, so_error, bits], "read": [lambda s: s.recv(8), lambda s: s.recv(8)],
          "write": [lambda s: s.send(b"x"), lambda s: s.send(b"x")]}
def opening(to):
    s = tcp(); s.setblocking(False)
    try: s.connect((to, 80))
    except BlockingIOError: pass
    settle(s, select.POLLOUT); return s
# Code 4 of IPv4 says that a packet is too big.
for code in CODES:
    if not V6 and code == 4: continue
    s = tcp(); s.settimeout(None)
    print(f"opening code {code}: {said(lambda: s.connect((far(code), 80)))}"); s.close()
    s = socket.socket(FAMILY, socket.SOCK_DGRAM); s.connect((far(code), 80)); s.send(b"x"); time.sleep(.03)
    print(f"datagram code {code}: {so_error(s)}"); s.close()
    s = socket.socket(FAMILY, socket.SOCK_DGRAM); s.connect((far(code), 80)); s.send(b"x"); s.settimeout(.03)
    print(f"datagram code {code} read: {said(lambda: s.recv(8))}"); s.close()
for code in ((0, 1, 3, 4) if V6 else (0, 1, 2, 3, 13)):
    for order, calls in ORDERS.items():
        s = opening(far(code)); print(f"opening code {code} {order}: {', '.join(said(lambda: f(s)) for f in calls)}"); s.close()
# At the same time, as each takes a while.
def late(code, limit):
    s = tcp(); s.connect((PEER, 7010 + code if code is not None else 7006)); s.recv(8)
    s.setsockopt(6, 18, limit); s.send(b"lost"); return s
cases = [(code, order) for code in ((0, 1, 3, 4, None) if V6 else (0, 1, 2, 3, 13, None)) for order in ORDERS]
# Three of each: an error of ICMP may be lost, on a busy machine, as any packet.
waiting = [(code, order, [late(code, 800) for _ in range(1 if code is None else 3)]) for code, order in cases]
def silent():
    s = tcp(); s.setblocking(False); s.setsockopt(6, 18, 400)
    try: s.connect((SILENT, 80))
    except BlockingIOError: pass
    return s
opened = [(order, silent()) for order in ORDERS]
for code, order, all in waiting:
    results = []
    for s in all:
        settle(s, 0x2000); results.append([said(lambda: f(s)) for f in ORDERS[order]]); s.close()
    heard = [r for r in results if not {"ETIMEDOUT", "nothing"} & set(r)]
    print(f"open {'silence' if code is None else f'code {code}'} {order}: {', '.join((heard or results)[0])}")
for order, s in opened:
    settle(s, select.POLLOUT); print(f"opening silence {order}: {', '.join(said(lambda: f(s)) for f in ORDERS[order])}"); s.close()
