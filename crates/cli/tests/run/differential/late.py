"""Data that waits below SO_RCVLOWAT, and data that come after shutdown(SHUT_RD): what polls and reads say."""
import errno, select, socket, sys, time
OURS, PEER = sys.argv[1:3]
def name(code): return errno.errorcode.get(code, str(code))
def poll(s):
    p = select.poll(); p.register(s, 1 | 0x2000); m = dict(p.poll(0)).get(s.fileno(), 0)
    return "|".join(n for b, n in [(1, "IN"), (0x2000, "RDHUP")] if m & b) or "none"
def epoll(s):
    p = select.epoll(); p.register(s, 1); return str(len(p.poll(0)))
def choose(s): return str(len(select.select([s], [], [], 0)[0]))
def read(s):
    s.settimeout(0)
    try: return repr(s.recv(64))
    except OSError as e: return name(e.errno)
def more(s): s.sendall(b"x"); time.sleep(.03); return "more"
def waits(s):
    """A read that waits for fewer bytes than there are."""
    s.settimeout(None); s.setsockopt(1, 20, b"\0" * 8 + (200_000).to_bytes(8, "little"))
    try: return repr(s.recv(3))
    except OSError as e: return name(e.errno)
def shut(s): s.shutdown(socket.SHUT_RD); return "shut"
ORDERS = [[poll, more, poll, read], [epoll, more, epoll], [choose, more, choose], [read, poll, read], [waits, poll], [more, waits, poll, read]]
for limit in (1, 10):
    for when in ("before", "after"):
        for order in ORDERS:
            s = socket.socket()
            if when == "before": s.setsockopt(1, 18, limit)
            s.connect((PEER, 7009)); time.sleep(.03)
            if when == "after": s.setsockopt(1, 18, limit)
            print(f"SO_RCVLOWAT {limit} {when} connect, {' '.join(f.__name__ for f in order)}: {', '.join(f(s) for f in order)}"); s.close()
for order in ([shut, poll, read, read], [shut, more, poll, read, read], [read, shut, more, read, read], [read, shut, read, more, read], [shut, more, more, read, more, read, poll]):
    s = socket.create_connection((PEER, 7009)); time.sleep(.03)
    print(f"{' '.join(f.__name__ for f in order)}: {', '.join(f(s) for f in order)}"); s.close()
