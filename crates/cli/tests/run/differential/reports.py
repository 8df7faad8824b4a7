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
