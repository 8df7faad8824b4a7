"""Every way to use a socket for datagrams, on our stack: the peer at
argv[2]:8080 sends back what it is sent (its traffic class is 186), nobody listens at its port 8081;
argv[1] is our address. With the word "serves" behind them: echo servers at our
ports 7001 and 7002, which end when they are told "over". With "six": the same
over IPv6, in short."""

import asyncio
import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
import sys

from sockets import refuses

OURS, PEER = sys.argv[1], (sys.argv[2], 8080)
NOBODY = (sys.argv[2], 8081)
LIMIT = 20
SIZES = [1, 0, 1472, 1473, 9000, 65507]
LIBC = ctypes.CDLL(None, use_errno=True)


def udp(family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(LIMIT)
    return s


def asked(ask, answer, tries=4):
    """What comes back; a datagram that was lost is sent again."""
    for _ in range(tries):
        ask()
        try:
            return answer()
        except TimeoutError:
            pass
    raise AssertionError("no answer")


def without_an_address():
    s = udp()
    s.settimeout(LIMIT / 4)
    for size in SIZES:
        data = os.urandom(size)
        assert asked(lambda: s.sendto(data, PEER), lambda: s.recvfrom(70_000)) == (data, PEER)
    assert s.getsockname()[0] == "0.0.0.0" and s.getsockname()[1] >= 32768
    refuses(s.getpeername, errno.ENOTCONN)
    refuses(lambda: s.sendto(bytes(65508), PEER), errno.EMSGSIZE)
    refuses(s.listen, errno.EOPNOTSUPP)


def connected():
    s = udp()
    s.settimeout(LIMIT / 4)
    s.connect(PEER)
    assert s.getsockname()[0] == OURS and s.getpeername() == PEER
    assert asked(lambda: s.send(b"one"), lambda: s.recv(100)) == b"one"
    s.setblocking(True)
    os.write(s.fileno(), b"two")
    assert os.read(s.fileno(), 100) == b"two"
    os.writev(s.fileno(), [b"th", b"r", b"ee"])
    a, b = bytearray(2), bytearray(10)
    assert os.readv(s.fileno(), [a, b]) == 5 and bytes(a + b[:3]) == b"three"
    # Another peer, and nobody.
    s.connect(NOBODY)
    assert s.getpeername() == NOBODY
    assert LIBC.connect(s.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16) == 0
    refuses(s.getpeername, errno.ENOTCONN)
    s.sendto(b"four", PEER)
    assert s.recvfrom(100) == (b"four", PEER)
    refuses(lambda: udp().connect(("192.0.2.1", 53)), errno.ENETUNREACH)


def nobody_listens():
    s = udp()
    s.connect(NOBODY)
    s.send(b"x")
    refuses(lambda: s.recv(100), errno.ECONNREFUSED)
    told = lambda: (s.send(b"x"), select.select([s], [], [], LIMIT)[0])[1]
    assert told()
    refuses(lambda: s.send(b"x"), errno.ECONNREFUSED)
    assert told()
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, "once"


def flags():
    s = udp()
    s.sendto(b"more than four", PEER)
    assert s.recv(4, socket.MSG_PEEK) == b"more"
    into = bytearray(4)
    assert s.recv_into(into, 4, socket.MSG_PEEK | socket.MSG_TRUNC) == 14
    data, control, told, who = s.recvmsg(4, 100)
    assert (data, control, told & socket.MSG_TRUNC, who) == (b"more", [], socket.MSG_TRUNC, PEER)
    s.setblocking(True)
    refuses(lambda: s.recv(4, socket.MSG_DONTWAIT), errno.EAGAIN)
    refuses(lambda: s.recvmsg(4, 0, socket.MSG_ERRQUEUE), errno.EAGAIN)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 1000))
    refuses(lambda: s.recv(4), errno.EAGAIN)


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Iovec)),
        ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("pad", ctypes.c_int), ("len", ctypes.c_uint),
    ]


def by_number(name):
    """As libuv calls it, past the C library's function."""
    numbers = {"x86_64": (307, 299), "aarch64": (269, 243), "riscv64": (269, 243)}
    number = numbers[os.uname().machine][name == "recvmmsg"]
    return lambda *args: LIBC.syscall(number, *args, *[None] * (6 - len(args)))


def messages(sendmmsg=LIBC.sendmmsg, recvmmsg=LIBC.recvmmsg):
    s = udp()
    assert s.sendmsg([b"in ", b"two"], [], 0, PEER) == 6
    assert s.recvmsg_into([bytearray(3), bytearray(9)])[::3] == (6, PEER)
    refuses(lambda: s.sendmsg([b"x"], [(socket.IPPROTO_IP, socket.IP_TTL, b"\0\0\0\0")], 0, PEER), errno.EINVAL)
    refuses(lambda: s.sendmsg([b"x"], [(socket.IPPROTO_IP, socket.IP_RETOPTS, b"\0\0\0\0")], 0, PEER), errno.EOPNOTSUPP)
    addr = struct.pack("!HH4s8x", 0, PEER[1], socket.inet_aton(PEER[0]))
    addr = struct.pack("H", socket.AF_INET) + addr[2:]
    texts = [b"first", b"second", b"third"]
    out = (Message * 3)(*(Message(addr, 16, ctypes.pointer(Iovec(t, len(t))), 1) for t in texts))
    assert sendmmsg(s.fileno(), out, 3, 0) == 3 and [m.len for m in out] == [5, 6, 5]
    buffers = [ctypes.create_string_buffer(100) for _ in range(4)]
    pieces = [Iovec(ctypes.cast(b, ctypes.c_char_p), 100) for b in buffers]
    names = [ctypes.create_string_buffer(16) for _ in range(4)]
    came = (Message * 4)(*(Message(ctypes.cast(n, ctypes.c_char_p), 16, ctypes.pointer(p), 1) for n, p in zip(names, pieces)))
    s.setblocking(True)
    got = 0
    while got < 3:
        more = recvmmsg(s.fileno(), ctypes.byref(came, got * ctypes.sizeof(Message)), 4 - got, 0x10000, None)
        assert more > 0, ctypes.get_errno()
        got += more
    assert [b.value for b in buffers[:3]] == texts and [m.len for m in came[:3]] == [5, 6, 5]
    assert all(n.raw[2:8] == addr[2:8] for n in names[:3])


def numbered_messages():
    messages(by_number("sendmmsg"), by_number("recvmmsg"))


def watched():
    """Ours beside one of the kernel's, by select, poll and epoll."""
    ours, kernels = udp(), udp()
    kernels.bind(("127.0.0.1", 0))
    both = [ours, kernels]
    ours.sendto(b"x", PEER)
    assert select.select(both, [], [], LIMIT)[0] == [ours]
    ours.recv(10)
    poll = select.poll()
    [poll.register(s, select.POLLIN) for s in both]
    kernels.sendto(b"y", kernels.getsockname())
    assert poll.poll(LIMIT * 1000) == [(kernels.fileno(), select.POLLIN)]
    epoll = select.epoll()
    # Registered before it is ours, edge-triggered.
    fresh = udp()
    epoll.register(fresh, select.EPOLLIN | select.EPOLLET)
    fresh.connect(PEER)
    fresh.send(b"z")
    assert epoll.poll(LIMIT) == [(fresh.fileno(), select.EPOLLIN)]
    assert fresh.recv(10) == b"z" and epoll.poll(0) == []


def bound():
    s = udp()
    s.bind((OURS, 0))
    assert s.getsockname()[0] == OURS and s.getsockname()[1] >= 32768
    other = udp()
    refuses(lambda: other.bind(s.getsockname()), errno.EADDRINUSE)
    refuses(lambda: s.bind((OURS, 5)), errno.EINVAL)
    port = s.getsockname()[1]
    s.close()
    other.bind((OURS, port))
    for option in [socket.SO_REUSEADDR, socket.SO_REUSEPORT]:
        some = [udp(), udp()]
        for one in some:
            one.setsockopt(socket.SOL_SOCKET, option, 1)
            one.bind(("0.0.0.0", 5000))
        [one.close() for one in some]


def options():
    s = udp()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
    s.bind((OURS, 5001))
    of = lambda name: s.getsockopt(socket.SOL_SOCKET, name)
    assert (of(socket.SO_TYPE), of(socket.SO_PROTOCOL)) == (socket.SOCK_DGRAM, socket.IPPROTO_UDP)
    assert of(socket.SO_RCVBUF) == 100_000
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 60_000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1, "without effect, as the kernel's"
    assert of(socket.SO_SNDBUF) == 120_000
    refuses(lambda: s.setsockopt(socket.IPPROTO_IP, socket.IP_TRANSPARENT if hasattr(socket, "IP_TRANSPARENT") else 19, 1), errno.ENOPROTOOPT)


def to_ourselves():
    server, client = udp(), udp()
    server.bind(("0.0.0.0", 7000))
    client.sendto(b"hello", (OURS, 7000))
    assert server.recvfrom(10) == (b"hello", (OURS, client.getsockname()[1]))
    server.sendto(b"to you", (OURS, client.getsockname()[1]))
    assert client.recvfrom(10) == (b"to you", (OURS, 7000))


def copies():
    """A copy, a child and another program have the same socket."""
    s = udp()
    s.connect(PEER)
    s.setblocking(True)
    copy = s.dup()
    copy.send(b"copy")
    assert s.recv(10) == b"copy"
    child = os.fork()
    if child == 0:
        s.send(b"child")
        os._exit(s.recv(10) != b"child")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    program = "import os; os.write(%d, b'program'); print(os.read(%d, 100))" % (s.fileno(), s.fileno())
    said = subprocess.run([sys.executable, "-c", program], pass_fds=[s.fileno()], stdout=subprocess.PIPE)
    assert said.stdout == b"b'program'\n", said


def the_kernels():
    """Loopback, and whoever is bound to it, is the kernel's."""
    server, client = udp(), udp()
    server.bind(("127.0.0.1", 0))
    client.sendto(b"hello", server.getsockname())
    assert client.getsockname()[0] == "0.0.0.0"
    data, who = server.recvfrom(10)
    server.sendto(data, who)
    assert client.recvfrom(10) == (b"hello", server.getsockname())
    refuses(lambda: udp().bind(("192.0.2.1", 53)), errno.EADDRNOTAVAIL)
    any_port = udp()
    any_port.bind(("0.0.0.0", 0))
    any_port.sendto(b"hi", server.getsockname())
    assert server.recvfrom(10) == (b"hi", ("127.0.0.1", any_port.getsockname()[1]))
    refuses(lambda: udp().sendto(b"x", ("192.0.2.1", 53)), errno.ENETUNREACH)


def by_ipv6():
    s = udp(socket.AF_INET6)
    to = ("::ffff:" + PEER[0], PEER[1])
    s.setsockopt(socket.IPPROTO_IP, 13, 1)
    s.sendto(b"six", to)
    data, control, _, who = s.recvmsg(10, 100)
    assert (data, control, who[:2]) == (b"six", [(socket.IPPROTO_IP, socket.IP_TOS, bytes([186]))], to)
    s.connect(to)
    assert s.getsockname()[0] == "::ffff:" + OURS and s.getpeername()[:2] == to


def over_ipv6():
    s = udp(socket.AF_INET6)
    peer = PEER + (0, 0)
    for size in SIZES + [65527]:
        data = os.urandom(size)
        s.sendto(data, peer)
        assert s.recvfrom(70_000) == (data, peer)
    refuses(lambda: s.sendto(bytes(65528), peer), errno.EMSGSIZE)
    level, tclass = socket.IPPROTO_IPV6, socket.IPV6_TCLASS
    assert s.getsockopt(level, socket.IPV6_V6ONLY) == 0
    s.setsockopt(level, socket.IPV6_RECVTCLASS, 1)
    s.sendmsg([b"x"], [(level, tclass, struct.pack("i", -1))], 0, peer)
    assert s.recvmsg(100, 100)[:2] == (b"x", [(level, tclass, struct.pack("i", 186))])
    refuses(lambda: s.sendmsg([b"x"], [(level, tclass, struct.pack("i", -2))], 0, peer), errno.EINVAL)
    s.connect(peer)
    assert s.getsockname()[0] == OURS and s.getpeername() == peer
    s.connect(NOBODY)
    s.send(b"x")
    refuses(lambda: s.recv(100), errno.ECONNREFUSED)
    server = udp(socket.AF_INET6)
    server.setsockopt(level, socket.IPV6_V6ONLY, 1)
    server.bind((OURS, 7000))
    assert server.getsockopt(level, socket.IPV6_V6ONLY) == 1
    s.connect((OURS, 7000))
    s.send(b"hello")
    assert server.recvfrom(10) == (b"hello", s.getsockname())


class Echo(asyncio.DatagramProtocol):
    def __init__(self, over):
        self.over = over

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)
        if data == b"over":
            self.over.set_result(None)


class Ask(asyncio.DatagramProtocol):
    def __init__(self, answered):
        self.answered = answered

    def connection_made(self, transport):
        transport.sendto(b"asyncio")

    def datagram_received(self, data, addr):
        self.answered.set_result((data, addr))

    def error_received(self, error):
        self.answered.set_result(error.errno)


async def by_asyncio():
    loop = asyncio.get_running_loop()
    for to, expected in [(PEER, (b"asyncio", PEER)), (NOBODY, errno.ECONNREFUSED)]:
        answered = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(lambda: Ask(answered), remote_addr=to)
        assert await asyncio.wait_for(answered, LIMIT) == expected
        transport.close()


def our_end():
    """To which address of ours a datagram came, and from which one leaves (ip(7), IP_PKTINFO)."""
    pktinfo, level = 8, socket.IPPROTO_IP
    s = udp()
    s.setsockopt(level, pktinfo, 1)
    s.bind(("0.0.0.0", 7003))
    s.settimeout(LIMIT / 4)
    assert s.getsockopt(level, pktinfo) == 1
    info = lambda addr: struct.pack("=i4s4s", 0, socket.inet_aton(addr), bytes(4))
    ask = lambda: s.sendmsg([b"hello"], [(level, pktinfo, info(OURS))], 0, PEER)
    data, control, flags, who = asked(ask, lambda: s.recvmsg(100, 100))
    [(came_level, came, told)] = control
    index, _, addr = struct.unpack("=i4s4s", told)
    assert (data, flags, who, came_level, came) == (b"hello", 0, PEER, level, pktinfo)
    assert socket.inet_ntoa(addr) == OURS and socket.if_indextoname(index)
    assert asked(ask, lambda: s.recvmsg(100, 0))[2] == socket.MSG_CTRUNC
    s.sendmsg([b"x"], [(level, pktinfo, info("192.0.2.9"))], 0, PEER)
    refuses(lambda: s.recv(100), errno.EINVAL)
    s.setsockopt(level, pktinfo, 0)
    assert asked(ask, lambda: s.recvmsg(100, 100))[1] == []


def cut():
    """What is sent at once, and leaves as several (udp(7), UDP_SEGMENT)."""
    level, segment, gro = 17, 103, 104
    s = udp()
    s.settimeout(LIMIT / 4)
    # Said while the socket is still the kernel's.
    s.setsockopt(level, segment, 1000)
    s.bind((OURS, 7004))
    assert s.getsockopt(level, segment) == 1000
    data = os.urandom(2500)
    three = lambda: [s.recv(70_000) for _ in range(3)]
    parts = lambda size: [data[at : at + size] for at in range(0, len(data), size)]
    assert asked(lambda: s.sendto(data, PEER), three) == parts(1000)
    said = lambda size: [(level, segment, struct.pack("H", size))]
    assert asked(lambda: s.sendmsg([data], said(1200), 0, PEER), three) == parts(1200)
    refuses(lambda: s.sendmsg([data], said(10), 0, PEER), errno.EINVAL)
    refuses(lambda: s.sendmsg([data], [(level, gro, struct.pack("i", 10))], 0, PEER), errno.EINVAL)
    s.setsockopt(level, segment, 0)
    assert asked(lambda: s.sendto(data, PEER), lambda: s.recv(70_000)) == data
    refuses(lambda: s.setsockopt(level, segment, 70_000), errno.EINVAL)
    # Others may come between; where none does, they come at once.
    s.setsockopt(level, gro, 1)
    assert s.getsockopt(level, gro) == 1
    s.setsockopt(level, segment, 1000)
    s.sendto(data, (OURS, 7004))
    told = [(level, gro, struct.pack("i", 1000))]
    assert s.recvmsg(70_000, 100) == (data, told, 0, (OURS, 7004))
    whole = b""
    s.sendto(data, PEER)
    while len(whole) < len(data):
        whole += s.recv(70_000)
    assert whole == data


def marked():
    """The traffic class, DSCP and congestion bits, of what comes and of what leaves (ip(7), ipv6(7))."""
    level, tos, told = socket.IPPROTO_IP, socket.IP_TOS, 13
    s, other = udp(), udp()
    for each in (s, other):
        each.settimeout(LIMIT / 4)
    # One says it while the socket is still the kernel's, and in a byte.
    s.setsockopt(level, told, 1)
    other.setsockopt(level, tos, b"\x03")
    s.bind((OURS, 7005))
    other.bind((OURS, 7006))
    assert s.getsockopt(level, told) == 1 and other.getsockopt(level, tos) == 3
    come = lambda: s.recvmsg(100, 100)[1:3]
    assert asked(lambda: s.sendto(b"x", PEER), come) == ([(level, tos, bytes([186]))], 0)
    assert asked(lambda: s.sendto(b"x", PEER), lambda: s.recvmsg(100)[2]) == socket.MSG_CTRUNC
    send = lambda *said: lambda: other.sendmsg([b"x"], [(level, tos, value) for value in said], 0, (OURS, 7005))
    for said, expected in [((), 3), ((b"\x01",), 1), ((struct.pack("i", 187),), 187)]:
        assert asked(send(*said), come) == ([(level, tos, bytes([expected]))], 0)
    refuses(send(struct.pack("i", 256)), errno.EINVAL)
    refuses(lambda: s.setsockopt(level, tos, 256), errno.EINVAL)
    s.setsockopt(level, told, 0)
    assert asked(send(), come) == ([], 0)


def whole():
    """What is not to be cut on its way, since it finds out how long datagrams may be (ip(7), RFC 8899)."""
    level, discover, probe = socket.IPPROTO_IP, 10, 3
    s = udp()
    s.settimeout(LIMIT / 4)
    assert asked(lambda: s.sendto(bytes(1473), PEER), lambda: len(s.recv(9000))) == 1473
    s.setsockopt(level, discover, probe)
    assert s.getsockopt(level, discover) == probe
    s.sendto(bytes(1473), PEER)
    assert asked(lambda: s.sendto(bytes(1472), PEER), lambda: len(s.recv(9000))) == 1472, "the longer one is lost"
    refuses(lambda: s.setsockopt(level, discover, 6), errno.EINVAL)


def serve_blocking():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", 7001))
    data = b""
    while data != b"over":
        data, who = s.recvfrom(70_000)
        s.sendto(data, who)


async def serve_by_asyncio():
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    await loop.create_datagram_endpoint(lambda: Echo(over), local_addr=(OURS, 7002))
    await over


if sys.argv[3:] == ["six"]:
    over_ipv6()
    sys.exit()
if sys.argv[3:] == ["serves"]:
    child = os.fork()
    if child == 0:
        serve_blocking()
        os._exit(0)
    asyncio.run(serve_by_asyncio())
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ways = [without_an_address, connected, nobody_listens, flags, messages, numbered_messages, watched, bound, options, our_end, cut, marked, whole]
for way in ways + [to_ourselves, copies, the_kernels, by_ipv6]:
    way()
    print(way.__name__)
asyncio.run(by_asyncio())
print("all")
