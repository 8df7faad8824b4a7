"""Faults that users of other stacks outside the kernel have reported: each is a case named after its report."""
import errno, os, select, socket, struct, sys, time
OURS, PEER = sys.argv[1:3]
port = 23000 + 50 * int(OURS.rpartition(".")[2])
def name(code): return errno.errorcode.get(code, str(code))
def said(f):
    try: return str(f())
    except socket.timeout: return "nothing"
    except OSError as e: return name(e.errno)
def bits(s):
    p = select.poll(); p.register(s, 1 | 4 | 0x2000); m = dict(p.poll(0)).get(s.fileno(), 0)
    return "|".join(n for b, n in [(1, "IN"), (4, "OUT"), (8, "ERR"), (16, "HUP"), (0x2000, "RDHUP")] if m & b) or "none"
def events(s):
    p = select.epoll(); p.register(s, 1 | 4 | 0x2000); m = dict(p.poll(0)).get(s.fileno(), 0)
    return "|".join(n for b, n in [(1, "IN"), (4, "OUT"), (8, "ERR"), (16, "HUP"), (0x2000, "RDHUP")] if m & b) or "none"
def error(s): return name(s.getsockopt(1, 4))
def listener():
    global port; port += 1
    l = socket.socket(); l.setsockopt(1, 2, 1); l.bind((OURS, port)); l.listen(8); l.settimeout(2); return l
def report(case, *results): print(f"{case}: {', '.join(said(f) for f in results)}")
def in_child(f):
    child = os.fork()
    if child == 0: f(); os._exit(0)
    os.waitpid(child, 0); return "done"
def drain(s):
    """All that can be read, in however many calls."""
    time.sleep(.03); s.setblocking(False); result = b""
    try:
        while b := s.recv(64): result += b
        return result + b"|end"
    except BlockingIOError: return result
def connect(to=8080):
    s = socket.create_connection((PEER, to)); s.settimeout(2); return s
# gvisor 3780: accept of a connection that the peer has reset.
for data in ("", "x"):
    l = listener(); k = socket.create_connection((PEER, 7033)); k.sendall(f"{OURS},{port},{data}".encode()); k.recv(16); time.sleep(.03)
    a = None
    def accept():
        global a
        a, _ = l.accept(); return "accepted"
    report(f"gvisor_3780 {data or 'nothing'}", accept, lambda: a.getpeername()[0], lambda: bits(a), lambda: a.recv(8), lambda: a.recv(8), lambda: error(a)); k.close(); l.close()
# gvisor 12577 (of Unix sockets there): the end of a connection in a closed listener's queue, for the program at its other end.
for order in ("read", "poll", "error", "write"):
    l = listener(); s = socket.create_connection((OURS, port)); s.settimeout(2); l.close(); time.sleep(.02)
    calls = {"read": [lambda: s.recv(8), lambda: s.recv(8)], "poll": [lambda: bits(s), lambda: events(s), lambda: s.recv(8), lambda: bits(s), lambda: s.recv(8)],
             "error": [lambda: error(s), lambda: error(s), lambda: s.recv(8)], "write": [lambda: s.send(b"x"), lambda: s.send(b"x"), lambda: s.recv(8)]}[order]
    report(f"gvisor_12577 {order}", *calls); s.close()
# Likewise where the other program closes with data unread.
for order in ("read", "poll", "error"):
    l = listener(); s = socket.create_connection((OURS, port)); s.settimeout(2); s.sendall(b"x"); a, _ = l.accept(); a.sendall(b"y"); time.sleep(.01); a.close(); l.close(); time.sleep(.02)
    calls = {"read": [lambda: s.recv(8), lambda: s.recv(8), lambda: s.recv(8)], "poll": [lambda: bits(s), lambda: s.recv(8), lambda: bits(s), lambda: s.recv(8)],
             "error": [lambda: error(s), lambda: error(s), lambda: s.recv(8)]}[order]
    report(f"gvisor_12577 unread {order}", *calls); s.close()
# nanvix 2609: what a forked child does to its copy of a connection.
for what, f in (("closes", lambda: s.close()), ("exits", lambda: None), ("shuts_reading", lambda: s.shutdown(socket.SHUT_RD)), ("reads", lambda: s.recv(3)), ("writes", lambda: s.sendall(b"abc"))):
    s = connect(); s.sendall(b"hello"); time.sleep(.03)
    report(f"nanvix_2609 {what}", lambda: in_child(f), lambda: bits(s), lambda: s.send(b"more"), lambda: drain(s)); s.close()
# tigervnc 1714: descriptors 0 to 2 of an inetd are one connection; one is replaced.
s = connect(); copies = [s.dup() for _ in range(3)]; os.dup2(os.open("/dev/null", os.O_RDWR), copies[0].fileno())
report("tigervnc_1714", lambda: copies[1].send(b"one"), lambda: (time.sleep(.03), copies[2].recv(8))[1], lambda: copies[0].recv(8), lambda: s.getpeername()[1])
for c in copies: c.close()
s.close()
# packetdrill 119: reading is shut down, then writing.
s = connect(); s.shutdown(socket.SHUT_RD)
report("packetdrill_119", lambda: s.recv(8), lambda: bits(s), lambda: s.shutdown(socket.SHUT_WR), lambda: s.send(b"x"), lambda: bits(s)); s.close()
# shadow 3565: a read that waits while another thread shuts reading down, and data after that.
import threading
s = connect(7009); s.recv(4); threading.Timer(.03, lambda: s.shutdown(socket.SHUT_RD)).start()
report("shadow_3565", lambda: s.recv(8), lambda: s.send(b"x"), lambda: (time.sleep(.03), s.recv(8))[1], lambda: s.recv(8)); s.close()
# libvma 503: what an accepted connection inherits.
l = listener(); l.setsockopt(1, 18, 7); l.setsockopt(1, 9, 1); l.setsockopt(1, 13, struct.pack("ii", 1, 3)); l.setblocking(False)
k = socket.create_connection((PEER, 7008)); k.sendall(f"{OURS},{port},".encode()); k.recv(9); time.sleep(.02); a, _ = l.accept()
report("libvma_503", lambda: a.getsockopt(1, 18), lambda: a.getsockopt(1, 9), lambda: struct.unpack("ii", a.getsockopt(1, 13, 8)), lambda: os.get_blocking(a.fileno())); a.close(); k.close(); l.close()
# gvisor 2468: a listener that was shut down for reading listens again.
l = listener(); l.shutdown(socket.SHUT_RD); time.sleep(.01)
def accept_one():
    k = connect(7008); k.sendall(f"{OURS},{l.getsockname()[1]},x".encode()); said = k.recv(9); a, _ = l.accept(); r = (said, a.recv(8)); a.close(); k.close(); return r
report("gvisor_2468", lambda: l.accept(), lambda: bits(l), lambda: l.listen(4), lambda: bits(l), accept_one); l.close()
# gvisor 6495: shutdown of a socket whose handshake is pending.
for how in (0, 1, 2):
    s = socket.socket(); s.setblocking(False); s.connect_ex((OURS.rpartition(".")[0] + ".119", 80))
    report(f"gvisor_6495 {how}", lambda: s.shutdown(how), lambda: bits(s), lambda: error(s), lambda: s.recv(8), lambda: s.getpeername()[1], lambda: bits(s)); s.close()
# gvisor 8998: a datagram socket that is shut down, then connected again.
for how in (0, 1, 2):
    s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(2); s.connect((PEER, 8080)); s.shutdown(how)
    report(f"gvisor_8998 {how}", lambda: bits(s), lambda: s.connect((PEER, 8080)), lambda: bits(s), lambda: s.send(b"x"), lambda: (time.sleep(.03), s.recv(8, socket.MSG_DONTWAIT))[1], lambda: bits(s)); s.close()
# gvisor 3153: a backlog of 0 takes one connection.
l = listener(); l.listen(0); report("gvisor_3153", accept_one, accept_one); l.close()
# gvisor 13393: closed with data that the peer's window has no room for: it reads all, and the end.
l = listener(); k = socket.create_connection((PEER, 7034)); k.sendall(f"{OURS},{l.getsockname()[1]},".encode()); k.recv(9); a, _ = l.accept()
a.setblocking(False); sent = 0
try:
    while True: sent += a.send(bytes(65536))
except BlockingIOError: pass
a.close(); k.settimeout(10); k.sendall(b"r"); got = int(k.recv(64)); report("gvisor_13393", lambda: "all, and the end" if got == sent else f"{got} of {sent}"); k.close(); l.close()
# gvisor 993, 1240, 769: receiving into no bytes with MSG_TRUNC, and with MSG_PEEK.
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def into_nothing(s, flags):
    got = libc.recv(s.fileno(), None, 0, flags | socket.MSG_DONTWAIT); return got if got >= 0 else name(ctypes.get_errno())
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    s = socket.socket(type=kind); s.connect((PEER, 8080)); s.send(b"hello"); time.sleep(.03)
    report(f"gvisor_993 {kind.name}", lambda: into_nothing(s, 0x22), lambda: into_nothing(s, 0x22), lambda: into_nothing(s, 0x20), lambda: into_nothing(s, 0x20), lambda: s.recv(8, socket.MSG_DONTWAIT)); s.close()
# libvma 719: a signal interrupts epoll_wait, poll, select and accept.
import signal
class Rung(Exception): pass
def ring(*_): raise Rung
signal.signal(signal.SIGALRM, ring)
def rung(f):
    signal.setitimer(signal.ITIMER_REAL, .05)
    try: f(); return "returned"
    except Rung: return "interrupted"
    finally: signal.setitimer(signal.ITIMER_REAL, 0)
s = connect(); s.settimeout(None); l = listener(); l.settimeout(None); e = select.epoll(); e.register(s, 1); p = select.poll(); p.register(s, 1)
report("libvma_719", lambda: rung(lambda: e.poll(5)), lambda: rung(lambda: p.poll(5000)), lambda: rung(lambda: select.select([s], [], [], 5)), lambda: rung(lambda: s.recv(8)), lambda: rung(l.accept))
s.close(); l.close(); e.close()
# libvma 219: an epoll set in another.
s = socket.socket(); s.setblocking(False); inner, outer = select.epoll(), select.epoll(); inner.register(s, 1 | 4); outer.register(inner, 1)
s.connect_ex((PEER, 8080)); report("libvma_219", lambda: len(outer.poll(2)), lambda: len(inner.poll(2)), lambda: s.send(b"x"), lambda: (time.sleep(.03), len(outer.poll(2)))[1], lambda: inner.poll(2)[0][1], lambda: s.recv(8)); s.close(); inner.close(); outer.close()
# libvma 1037: registered before connect, edge-triggered, and modified after it.
for order in ("modified", "removed", "added_again"):
    s = socket.socket(); s.setblocking(False); e = select.epoll(); e.register(s, 1 | 4 | 1 << 31); s.connect_ex((PEER, 8080))
    change = {"modified": lambda: e.modify(s, 1 | 1 << 31), "removed": lambda: e.unregister(s), "added_again": lambda: e.register(s, 1)}[order]
    report(f"libvma_1037 {order}", lambda: e.poll(2)[0][1], change, lambda: s.send(b"x"), lambda: (time.sleep(.03), [m for _, m in e.poll(0)])[1], lambda: s.recv(8)); s.close(); e.close()
# vpp 3345: file status flags by fcntl, also by a duplicate, and of an accepted connection.
import fcntl
s = connect(); d = s.dup(); s.settimeout(None); get = lambda x: f"{fcntl.fcntl(x, fcntl.F_GETFL):#x}"
report("vpp_3345", lambda: get(s), lambda: fcntl.fcntl(s, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC), lambda: get(d), lambda: fcntl.fcntl(s, fcntl.F_GETFD), lambda: fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid()), lambda: fcntl.fcntl(d, fcntl.F_GETOWN) == os.getpid(), lambda: s.recv(8)); s.close(); d.close()
# stellux 188: a buffer of which the second page is not there: no byte is lost.
s = connect(); s.sendall(bytes(range(250)) * 24); time.sleep(.1); libc.mmap.restype = ctypes.c_void_p; page = libc.mmap(None, 8192, 3, 0x22, -1, 0); libc.munmap(ctypes.c_void_p(page + 4096), 4096)
def into_page(length):
    got = libc.recv(s.fileno(), ctypes.c_void_p(page), length, socket.MSG_DONTWAIT); return name(ctypes.get_errno()) if got < 0 else got
def rest():
    n = 0
    s.setblocking(False)
    try:
        while b := s.recv(65536): n += len(b)
    except BlockingIOError: return n
got = into_page(8192); report("stellux_188", lambda: "all" if got == "EFAULT" and rest() == 6000 or got != "EFAULT" and got + rest() == 6000 else "lost"); s.close()
