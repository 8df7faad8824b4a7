"""Every socket call on a socket in every state."""
import ctypes, errno, os, select, signal, socket, struct, sys, time
OURS, PEER = sys.argv[1:3]
V6 = ":" in OURS
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
def near(host): return OURS.rpartition(":")[0] + f":{host:x}" if V6 else OURS.rpartition(".")[0] + f".{host}"
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
def name(code): return errno.errorcode.get(code, str(code))
def result(value): return str(min(value, 1000)) if value >= 0 else name(ctypes.get_errno())
def address(ip, port):
    if ":" in ip: return struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0, socket.inet_pton(socket.AF_INET6, ip), 0)
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(ip))
UNSPEC = struct.pack("=H14x", 0)
def settle(s, wanted):
    p = select.poll(); p.register(s, wanted); p.poll(5000)
def tcp(): return socket.socket(FAMILY)
def fresh(): return tcp()
def bound():
    s = tcp(); s.bind((OURS, 0)); return s
def listening():
    s = bound(); s.listen(4); return s
def connected():
    s = tcp(); s.connect((PEER, 7004)); return s
def connected_from_bound():
    # On the stack `bind` may choose a port from which a connection to that peer was closed lately.
    for last in (False, False, True):
        s = bound()
        try: s.connect((PEER, 7004)); return s
        except OSError as e:
            if last or e.errno != errno.EADDRNOTAVAIL: raise
def reset():
    s = tcp(); s.connect((PEER, 7005)); s.sendall(b"g"); settle(s, 0x2000); time.sleep(.02); return s
def peer_closed():
    s = tcp(); s.connect((PEER, 7002)); s.sendall(b"g"); settle(s, 0x2000); return s
def shut():
    s = connected(); s.shutdown(socket.SHUT_WR); return s
def shut_read():
    s = connected(); s.shutdown(socket.SHUT_RD); return s
def refused():
    s = tcp(); s.setblocking(False)
    try: s.connect((PEER, 9))
    except BlockingIOError: pass
    settle(s, select.POLLOUT); return s
def opening():
    s = tcp(); s.setblocking(False)
    try: s.connect((near(0x77), 80))
    except BlockingIOError: pass
    return s
STATES = [fresh, bound, listening, connected, connected_from_bound, reset, peer_closed, shut, shut_read, refused, opening]
def who(call):
    def f(s):
        a, n = ctypes.create_string_buffer(128), ctypes.c_uint32(128)
        got = call(s.fileno(), a, ctypes.byref(n))
        if got != 0: return name(ctypes.get_errno())
        ip = socket.inet_ntop(FAMILY, a.raw[8:24] if V6 else a.raw[4:8]); port = socket.ntohs(struct.unpack("=H", a.raw[2:4])[0])
        ip = {OURS: "ours", PEER: "peer"}.get(ip, ip)
        return f"{n.value} {ip}:{port if port < 32768 else 'any'}"
    return f
def connect_to(raw): return lambda s: result(libc.connect(s.fileno(), raw, len(raw)))
def bind_to(ip, port): return lambda s: result(libc.bind(s.fileno(), address(ip, port), len(address(ip, port))))
def nonblocking(call):
    def f(s):
        s.setblocking(False); return call(s)
    return f
def accept(s):
    got = libc.accept4(s.fileno(), None, None, 0)
    return result(got)
def read0(s): return result(libc.read(s.fileno(), ctypes.create_string_buffer(8), 0))
def read8(s): return result(libc.read(s.fileno(), ctypes.create_string_buffer(8), 8))
def null_read(s): return result(libc.read(s.fileno(), None, 8))
def write0(s): return result(libc.write(s.fileno(), b"", 0))
def write1(s): return result(libc.write(s.fileno(), b"x", 1))
def ioctl(number):
    def f(s):
        v = ctypes.c_int(0); got = libc.ioctl(s.fileno(), number, ctypes.byref(v))
        return result(got) if got < 0 else f"{got} {v.value}"
    return f
BITS = [(1, "IN"), (2, "PRI"), (4, "OUT"), (8, "ERR"), (16, "HUP"), (0x2000, "RDHUP")]
def poll(s):
    p = select.poll(); p.register(s, 1 | 2 | 4 | 0x2000); m = dict(p.poll(0)).get(s.fileno(), 0)
    return "|".join(n for b, n in BITS if m & b) or "none"
def do_select(s):
    r, w, x = select.select([s], [s], [s], 0); return f"{len(r)}{len(w)}{len(x)}"
def so_error(s): return name(s.getsockopt(1, 4))
def sockatmark(s): return result(libc.sockatmark(s.fileno()))
CALLS = {
 "getsockname": who(libc.getsockname), "getpeername": who(libc.getpeername),
 "bind": bind_to(OURS, 0), "bind to another's": bind_to(near(0xfa), 0),
 "listen": lambda s: result(libc.listen(s.fileno(), 4)), "listen -1": lambda s: result(libc.listen(s.fileno(), -1)),
 "accept": nonblocking(accept), "accept4 with bad flags": nonblocking(lambda s: result(libc.accept4(s.fileno(), None, None, 1))),
 "connect": nonblocking(connect_to(address(PEER, 7004))), "connect AF_UNSPEC": nonblocking(connect_to(UNSPEC)),
 "connect short": nonblocking(connect_to(address(PEER, 7004)[:8])),
 "connect AF_INET" if V6 else "connect AF_INET6": nonblocking(connect_to(address("0.0.0.0" if V6 else "::", 80))),
 "connect AF_INET in full" if V6 else "connect AF_INET6 to another's": nonblocking(connect_to(address("10.7.0.9", 80) + bytes(12) if V6 else address("fd00:7::9", 80))),
 "shutdown RD": lambda s: result(libc.shutdown(s.fileno(), 0)), "shutdown WR": lambda s: result(libc.shutdown(s.fileno(), 1)),
 "shutdown RDWR": lambda s: result(libc.shutdown(s.fileno(), 2)), "shutdown 3": lambda s: result(libc.shutdown(s.fileno(), 3)),
 "read": nonblocking(read8), "read nothing": nonblocking(read0), "read to NULL": nonblocking(null_read),
 "write": nonblocking(write1), "write nothing": nonblocking(write0),
 "poll": poll, "select": do_select, "SO_ERROR": so_error, "FIONREAD": ioctl(0x541b), "SIOCOUTQ": ioctl(0x5411), "SIOCATMARK": ioctl(0x8905), "sockatmark": sockatmark,
}
for state in STATES:
    for call, f in CALLS.items():
        s = state()
        first = f(s); time.sleep(.01); second = f(s)
        print(f"{state.__name__} {call}: {first}, again {second}")
        s.close()
