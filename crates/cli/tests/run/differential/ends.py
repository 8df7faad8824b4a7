"""Ends of connections: the results of calls after each end, in several orders."""
import ctypes, errno, select, signal, socket, struct, sys, time
OURS, PEER = sys.argv[1:3]
FAMILY = socket.AF_INET6 if ":" in OURS else socket.AF_INET
libc = ctypes.CDLL(None, use_errno=True)
pipes = 0
def on_pipe(*_):
    global pipes; pipes += 1
signal.signal(signal.SIGPIPE, on_pipe)

def after_write(s):
    """Until the peer has answered by a reset, if it does."""
    p = select.poll(); p.register(s, 0); p.poll(200); time.sleep(.01)
def name(code): return errno.errorcode.get(code, str(code))
def result(value): return str(value) if value >= 0 else name(ctypes.get_errno())

def read(s):
    b = ctypes.create_string_buffer(64)
    got = libc.read(s.fileno(), b, 64)
    return result(got) if got <= 0 else repr(b.raw[:got])
def recv(s):
    b = ctypes.create_string_buffer(64)
    got = libc.recv(s.fileno(), b, 64, 0)
    return result(got) if got <= 0 else repr(b.raw[:got])
def peek(s):
    b = ctypes.create_string_buffer(64)
    got = libc.recv(s.fileno(), b, 64, socket.MSG_PEEK)
    return result(got) if got <= 0 else repr(b.raw[:got])
def write(s):
    before = pipes
    got = result(libc.write(s.fileno(), b"xyz", 3))
    after_write(s)
    return got + ("+SIGPIPE" if pipes > before else "")
def send(s):
    before = pipes
    got = result(libc.send(s.fileno(), b"xyz", 3, socket.MSG_NOSIGNAL))
    after_write(s)
    return got + ("+SIGPIPE" if pipes > before else "")
BITS = [(select.POLLIN, "IN"), (select.POLLPRI, "PRI"), (select.POLLOUT, "OUT"), (select.POLLERR, "ERR"), (select.POLLHUP, "HUP"), (0x2000, "RDHUP")]
def bits(mask): return "|".join(n for b, n in BITS if mask & b) or "none"
def poll(s):
    p = select.poll(); p.register(s, select.POLLIN | select.POLLOUT | 0x2000)
    return bits(dict(p.poll(0)).get(s.fileno(), 0))
def epoll(s):
    p = select.epoll(); p.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)
    return bits(dict(p.poll(0)).get(s.fileno(), 0))
def error(s):
    return name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
def shut(s):
    return result(libc.shutdown(s.fileno(), 1))
def peername(s):
    a = ctypes.create_string_buffer(32); n = ctypes.c_uint32(32)
    return result(libc.getpeername(s.fileno(), a, ctypes.byref(n)))

def open_to(port):
    s = socket.socket(FAMILY); s.settimeout(None); s.connect((PEER, port)); return s
def settle(s, wanted=0x2000):
    p = select.poll(); p.register(s, wanted); p.poll(10000)
    time.sleep(0.02)

def reset_with_data():
    s = open_to(7001); s.sendall(b"g"); settle(s); return s
def reset_without_data():
    s = open_to(7005); s.sendall(b"g"); settle(s); return s
def reset_after_half_close():
    s = open_to(7001); s.shutdown(socket.SHUT_WR); settle(s); time.sleep(0.05); return s
def closed():
    s = open_to(7002); s.sendall(b"g"); settle(s); return s
def closed_both():
    s = open_to(7002); s.shutdown(socket.SHUT_WR); settle(s); time.sleep(0.05); return s
def reset_after_close():
    s = open_to(7003); s.sendall(b"g"); settle(s); s.sendall(b"h"); time.sleep(0.1); return s
def refused():
    s = socket.socket(FAMILY)
    s.setblocking(False)
    try: s.connect((PEER, 9))
    except BlockingIOError: pass
    p = select.poll(); p.register(s, select.POLLOUT); p.poll(10000)
    s.setblocking(True)
    return s
def user_timeout():
    s = open_to(7006); s.recv(64)
    s.setsockopt(socket.IPPROTO_TCP, 18, 300); s.sendall(b"lost"); settle(s); return s
def keep_alive():
    s = open_to(7006); s.recv(64)
    for option, value in ((4, 1), (5, 1), (6, 1)): s.setsockopt(socket.IPPROTO_TCP, option, value)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1); settle(s); return s
def open_still():
    s = open_to(7004); s.setblocking(False); return s
ENDS = [user_timeout, keep_alive, reset_with_data, reset_without_data, reset_after_half_close, closed, closed_both, reset_after_close, refused, open_still]
ORDERS = [[read, read, read], [recv, recv, recv], [peek, peek, read, read], [write, write, read], [send, send, send], [error, error, read, write], [poll, poll, read, poll, read, poll], [epoll, read, epoll, read, epoll], [shut, read, read], [peername, read, peername]]
for end in ENDS:
    for order in ORDERS[3:6] if end is user_timeout else ORDERS[3:4] if end is keep_alive else ORDERS:
        s = end()
        print(f"{end.__name__} {' '.join(c.__name__ for c in order)}: {', '.join(c(s) for c in order)}")
        s.close()
