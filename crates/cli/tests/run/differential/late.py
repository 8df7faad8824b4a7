"""Data that waits below SO_RCVLOWAT, and data that come after shutdown(SHUT_RD): what polls and reads say."""
import errno, os, select, socket, sys, time
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
def more(s): s.sendall(b"x"); time.sleep(.05); return "more"
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
            s.connect((PEER, 7009)); time.sleep(.05)
            if when == "after": s.setsockopt(1, 18, limit)
            print(f"SO_RCVLOWAT {limit} {when} connect, {' '.join(f.__name__ for f in order)}: {', '.join(f(s) for f in order)}"); s.close()
# Set when there is nothing to read, in the middle of a connection; and lowered while there is.
def limited(n):
    def limit(s): s.setsockopt(1, 18, n); return str(s.getsockopt(1, 18))
    limit.__name__ = f"limit_{n}"; return limit
def readable(s): return str(bool(select.select([s], [], [], .05)[0]))
def in_child(s):
    r, w = os.pipe(); pid = os.fork()
    if pid == 0: os.write(w, f"{poll(s)} {read(s)}".encode()); os._exit(0)
    os.waitpid(pid, 0); os.close(w); result = os.read(r, 200).decode(); os.close(r); return result
def vector(s): b = [bytearray(2), bytearray(70)]; got = os.readv(s.fileno(), b); return str(got)
def message(s): return repr(s.recvmsg(64)[0])
def plain(s): return repr(os.read(s.fileno(), 64))
def peek(s): return repr(s.recv(64, socket.MSG_PEEK))
def discard(s): return str(s.recv_into(bytearray(64), 64, socket.MSG_TRUNC))
def watched(events):
    """An epoll set that keeps the connection, beside the one that is new each time."""
    def watch(s):
        p = SETS.setdefault(s, select.epoll()); 
        try: p.register(s, events)
        except FileExistsError: pass
        return str(len(p.poll(0)))
    watch.__name__ = f"epoll_{events:#x}"; return watch
SETS = {}
def ended(s): s.shutdown(socket.SHUT_WR); time.sleep(.05); return "ended"
for order in [[read, limited(10), poll, more, poll, epoll, choose, read, more, poll, more, poll, epoll, choose, readable, read], [read, limited(10), more, limited(3), poll, read],
              [read, limited(10), more, limited(1), poll, epoll, read], [read, limited(10), more, ended, poll, read], [read, limited(0), more, poll, read],
              [read, limited(10), more, in_child, poll, more, poll], [read, limited(7), more, poll, more, poll, waits, poll, read],
              [read, limited(10), watched(1), more, watched(1), more, watched(1), watched(1), read, watched(1)],
              [read, limited(10), watched(1 | 1 << 31), more, watched(1 | 1 << 31), more, watched(1 | 1 << 31), watched(1 | 1 << 31)],
              [read, limited(10), watched(1 | 1 << 30), more, watched(1 | 1 << 30), more, watched(1 | 1 << 30), watched(1 | 1 << 30)]] + \
             [[read, limited(10), more, poll, f, poll, more, poll, f] for f in (vector, message, plain, peek, discard, waits)]:
    s = socket.create_connection((PEER, 7009)); time.sleep(.05); s.settimeout(0)
    def say(f):
        try: return f(s)
        except OSError as e: return name(e.errno)
    print(f"later, {' '.join(f.__name__ for f in order)}: {', '.join(say(f) for f in order)}"); s.close()
# Of what is accepted: from the listener, set before and after listen; and its own.
port = 22000 + 20 * int(OURS.rpartition(".")[2])
for point in ("before listen", "after listen", "accepted"):
    for data in ("four", "fourteen bytes"):
        port += 1; l = socket.socket(); l.setsockopt(1, 2, 1); l.bind((OURS, port))
        if point == "before listen": l.setsockopt(1, 18, 10)
        l.listen(4)
        if point == "after listen": l.setsockopt(1, 18, 10)
        k = socket.create_connection((PEER, 7008))
        if point == "accepted":
            k.sendall(f"{OURS},{port},".encode()); assert k.recv(9) == b"connected"; a, _ = l.accept(); a.setsockopt(1, 18, 10)
            print(f"{point}: {poll(a)} {a.getsockopt(1, 18)}, {read(a)}"); break
        k.sendall(f"{OURS},{port},{data}".encode()); assert k.recv(9) == b"connected"
        a, _ = l.accept(); time.sleep(.05)
        print(f"{point}, {data.replace(' ', '_')}: {a.getsockopt(1, 18)} {poll(a)} {epoll(a)} {choose(a)}, {read(a)}"); a.close(); k.close(); l.close()
def bit(s): s.settimeout(0); return repr(s.recv(3))
def peek(s): s.settimeout(0); return repr(s.recv(64, socket.MSG_PEEK))
def into(s):
    s.settimeout(0); buffers = [bytearray(3), bytearray(0), bytearray(5), bytearray(64)]
    got, *_ = s.recvmsg_into(buffers); return f"{got} {[bytes(b.rstrip(bytes(1))) for b in buffers]}"
def vector(s):
    buffers = [bytearray(2), bytearray(7)]; got = os.readv(s.fileno(), buffers); return f"{got} {[bytes(b.rstrip(bytes(1))) for b in buffers]}"
def plain(s): return repr(os.read(s.fileno(), 64))
def sender(s): return repr(s.recvfrom(64))
def discard(s): return str(s.recv_into(bytearray(7), 7, socket.MSG_TRUNC))
def waiting(s): s.settimeout(2); return repr(s.recv(64))
def child(s):
    """Of the forked child's copy."""
    r, w = os.pipe(); pid = os.fork()
    if pid == 0: os.write(w, read(s).encode()); os._exit(0)
    os.waitpid(pid, 0); os.close(w); result = os.read(r, 200).decode(); os.close(r); return result
def copy(s): c = s.dup(); result = read(c); c.close(); return result
def shut_both(s): s.shutdown(socket.SHUT_WR); return "shut"
def over(s): s.sendall(b"end"); time.sleep(.05); return "over"
def much(s):
    """More than a socket pair holds: nothing is lost."""
    s.settimeout(5); s.sendall(b"much"); total = 0
    deadline = time.time() + 5
    while total < 1_000_000 and time.time() < deadline: total += len(s.recv(65536)) or time.sleep(.001) or 0
    return str(total)
READS = [bit, peek, into, vector, plain, sender, discard, waiting, child, copy]
for port, order in [(7009, [shut, poll, read, read]), (7009, [shut, more, poll, read, read]), (7009, [read, shut, more, read, read]), (7009, [read, shut, read, more, read]),
        (7009, [shut, more, more, read, more, read, poll]), (7009, [shut, shut, more, read]), (7009, [read, shut, more, shut_both, read, read]),
        (7031, [read, shut, over, poll, read, read]), (7032, [read, shut, over, poll, read, read, read]), (7030, [shut, much, read])] + \
        [(7009, [*before, shut, more, f, read, more, f, read]) for f in READS for before in ([], [read])] + [(7009, [shut, f]) for f in READS]:
    s = socket.create_connection((PEER, port)); time.sleep(.05)
    def said(f):
        try: return f(s)
        except OSError as e: return name(e.errno)
    print(f"{port} {' '.join(f.__name__ for f in order)}: {', '.join(said(f) for f in order)}"); s.close()
