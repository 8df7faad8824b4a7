"""Every flag of the calls that send and receive datagrams, and every socket call, on sockets of UDP in every state."""
import ctypes, errno, select, socket, struct, sys, time
OURS, PEER = sys.argv[1:3]
V6 = ":" in OURS
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
libc = ctypes.CDLL(None, use_errno=True)
def name(code): return errno.errorcode.get(code, str(code))
def result(got): return str(got) if got >= 0 else name(ctypes.get_errno())
def address(ip, port, family=FAMILY):
    if V6: return struct.pack("=HHI16sI", family, socket.htons(port), 0, socket.inet_pton(socket.AF_INET6, ip), 0)
    return struct.pack("=HH4s8x", family, socket.htons(port), socket.inet_aton(ip))
def udp(): return socket.socket(FAMILY, socket.SOCK_DGRAM)
def ready(s):
    p = select.poll(); p.register(s, select.POLLIN); p.poll(5000)
def fresh(): return udp()
def bound():
    s = udp(); s.bind((OURS, 0)); return s
def connected():
    s = udp(); s.connect((PEER, 8080)); return s
def waiting():
    s = connected(); s.send(b"0123456789"); s.send(b"second"); ready(s); time.sleep(.02); return s
def refused():
    s = udp(); s.connect((PEER, 9)); s.send(b"x"); ready(s); time.sleep(.02); return s
def shut():
    s = connected(); s.shutdown(socket.SHUT_RDWR); return s
STATES = [fresh, bound, connected, waiting, refused, shut]
def who(call):
    def f(s):
        a, n = ctypes.create_string_buffer(128), ctypes.c_uint32(128)
        if call(s.fileno(), a, ctypes.byref(n)) != 0: return name(ctypes.get_errno())
        ip = socket.inet_ntop(FAMILY, a.raw[8:24] if V6 else a.raw[4:8]); port = socket.ntohs(struct.unpack("=H", a.raw[2:4])[0])
        return f"{n.value} {dict([(OURS, 'ours'), (PEER, 'peer')]).get(ip, ip)}:{port if port < 32768 else 'any'}"
    return f
def recv(flag, length=8):
    def f(s):
        b = ctypes.create_string_buffer(16)
        got = libc.recv(s.fileno(), b, length, flag | socket.MSG_DONTWAIT)
        return result(got) + (f" {b.raw[:min(got, length)]!r}" if got > 0 else "")
    return f
def send(flag): return lambda s: result(libc.send(s.fileno(), b"hello", 5, flag | socket.MSG_DONTWAIT))
def sendto(raw, length=5): return lambda s: result(libc.sendto(s.fileno(), b"x" * length, length, socket.MSG_DONTWAIT, raw, len(raw) if raw else 0))
def connect(raw): return lambda s: result(libc.connect(s.fileno(), raw, len(raw)))
def poll(s):
    p = select.poll(); p.register(s, 1 | 2 | 4 | 0x2000); m = dict(p.poll(0)).get(s.fileno(), 0)
    return "|".join(n for b, n in [(1, "IN"), (2, "PRI"), (4, "OUT"), (8, "ERR"), (16, "HUP"), (0x2000, "RDHUP")] if m & b) or "none"
CALLS = {f"recv {1 << bit:#x}": recv(1 << bit) for bit in range(31)}
CALLS |= {f"send {1 << bit:#x}": send(1 << bit) for bit in range(31) if 1 << bit != 0x8000}
CALLS |= {
 "recv nothing": recv(0, 0), "recv": recv(0), "send": send(0), "getsockname": who(libc.getsockname), "getpeername": who(libc.getpeername),
 "sendto": sendto(address(PEER, 8080)), "sendto nobody": sendto(None), "sendto port 0": sendto(address(PEER, 0)),
 "sendto short": sendto(address(PEER, 8080)[:8]), "sendto AF_UNSPEC": sendto(address(PEER, 8080, 0)), "sendto AF_UNIX": sendto(address(PEER, 8080, 1)), "sendto the other family": sendto(struct.pack("=HH4s8x", 2, 80, b"\n\x07\0\t") if V6 else struct.pack("=HHI16sI", 10, 80, 0, b"\0" * 16, 0)),
 "sendto too much of IPv6": sendto(address(PEER, 8080), 65528),
 "sendto nothing": sendto(address(PEER, 8080), 0), "sendto too much": sendto(address(PEER, 8080), 65508),
 "connect": connect(address(PEER, 8080)), "connect AF_UNSPEC": connect(struct.pack("=H14x", 0)), "connect short": connect(address(PEER, 8080)[:8]),
 "bind": lambda s: result(libc.bind(s.fileno(), address(OURS, 0), 28 if V6 else 16)),
 "listen": lambda s: result(libc.listen(s.fileno(), 4)), "accept": lambda s: result(libc.accept4(s.fileno(), None, None, 0)),
 "shutdown RD": lambda s: result(libc.shutdown(s.fileno(), 0)), "shutdown WR": lambda s: result(libc.shutdown(s.fileno(), 1)), "shutdown 3": lambda s: result(libc.shutdown(s.fileno(), 3)),
 "poll": poll, "SO_ERROR": lambda s: name(s.getsockopt(1, 4)),
}
for state in STATES:
    for call, f in CALLS.items():
        s = state(); first = f(s); time.sleep(.01); second = f(s)
        print(f"{state.__name__} {call}: {first}, again {second}"); s.close()
