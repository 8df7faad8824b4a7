"""Every flag of recv, recvmsg, send and sendmsg on a connection: with bytes waiting, with none, after the peer's end; and the bytes that are left."""
import ctypes, errno, select, signal, socket, sys, time
OURS, PEER = sys.argv[1:3]
FAMILY = socket.AF_INET6 if ":" in OURS else socket.AF_INET
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
def name(code): return errno.errorcode.get(code, str(code))
class iovec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
class msghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.c_void_p), ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int)]
def message(buffer, length):
    v = iovec(ctypes.cast(buffer, ctypes.c_void_p), length)
    control = ctypes.create_string_buffer(64); where = ctypes.create_string_buffer(64)
    m = msghdr(ctypes.cast(where, ctypes.c_void_p), 64, ctypes.cast(ctypes.pointer(v), ctypes.c_void_p), 1, ctypes.cast(control, ctypes.c_void_p), 64, 0)
    m.keep = (v, control, where)
    return m
def result(got, raw=b""):
    return f"{got} {raw[:got]!r}" if got > 0 and raw else str(got) if got >= 0 else name(ctypes.get_errno())
def recv(s, flag):
    b = ctypes.create_string_buffer(b"\0" * 8, 8)
    return result(libc.recv(s.fileno(), b, 8, flag | socket.MSG_DONTWAIT), b.raw)
def recvmsg(s, flag):
    b = ctypes.create_string_buffer(b"\0" * 8, 8); m = message(b, 8)
    got = libc.recvmsg(s.fileno(), ctypes.byref(m), flag | socket.MSG_DONTWAIT)
    return result(got, b.raw) + (f" flags {m.flags & ~0x80000000:#x} name {m.namelen} control {m.controllen}" if got >= 0 else "")
def recvmmsg(s, flag):
    class mmsghdr(ctypes.Structure): _fields_ = [("hdr", msghdr), ("len", ctypes.c_uint)]
    b = ctypes.create_string_buffer(b"\0" * 8, 8); m = message(b, 8); both = mmsghdr(m, 0)
    got = libc.recvmmsg(s.fileno(), ctypes.byref(both), 1, flag | socket.MSG_DONTWAIT, None)
    return result(got) + (f" {both.len}" if got > 0 else "")
def send(s, flag): return result(libc.send(s.fileno(), b"hello", 5, flag | socket.MSG_DONTWAIT))
def sendmsg(s, flag):
    b = ctypes.create_string_buffer(b"hello", 5); m = message(b, 5); m.name = None; m.namelen = 0; m.control = None; m.controllen = 0
    return result(libc.sendmsg(s.fileno(), ctypes.byref(m), flag | socket.MSG_DONTWAIT))
def sendto(s, flag):
    return result(libc.sendto(s.fileno(), b"hello", 5, flag | socket.MSG_DONTWAIT, None, 0))
def connect(port):
    s = socket.socket(FAMILY); s.connect((PEER, port)); return s
def ready(s):
    p = select.poll(); p.register(s, select.POLLIN); p.poll(5000)
def waiting():
    s = connect(8080); s.sendall(b"0123456789"); 
    while len(s.recv(64, socket.MSG_PEEK)) < 10: pass
    return s
def empty(): return connect(7004)
def ended():
    s = connect(7002); s.sendall(b"g"); ready(s); 
    while s.recv(64): pass
    return s
def half_closed():
    s = connect(8080); s.sendall(b"abc"); s.shutdown(socket.SHUT_WR)
    while len(s.recv(64, socket.MSG_PEEK)) < 3: pass
    time.sleep(.02); return s
def left(s):
    s.settimeout(0.0)
    try: return repr(s.recv(64))
    except OSError as e: return name(e.errno)
for state in (waiting, empty, ended, half_closed):
    for call in (recv, recvmsg, recvmmsg):
        for bit in range(31):
            if 1 << bit == 0x10000: continue  # MSG_WAITFORONE belongs to recvmmsg
            s = state(); r = call(s, 1 << bit)
            print(f"{state.__name__} {call.__name__} {1 << bit:#x}: {r}, left {left(s)}"); s.close()
for state in (empty, half_closed):
    for call in (send, sendmsg, sendto):
        for bit in range(31):
            s = state(); r = call(s, 1 << bit)
            print(f"{state.__name__} {call.__name__} {1 << bit:#x}: {r}"); s.close()
