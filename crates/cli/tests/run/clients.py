"""Every way to connect, on our stack: the peer at argv[2]:8080 sends back what
it is sent, nobody listens at its port 8081, and nobody has the address that ends in
77; argv[1] is our address."""

import asyncio
import errno
import os
import select
import socket
import sys
import threading

from sockets import refuses

OURS, PEER = sys.argv[1], (sys.argv[2], 8080)
NOBODY = (sys.argv[2], 8081)
SILENT = (sys.argv[2].rsplit(".", 1)[0] + ".77", 8080)
LIMIT = 20


def comes_back(s, size=40_000):
    data = os.urandom(size)
    s.sendall(data)
    got = b""
    while len(got) < size:
        piece = s.recv(65536)
        assert piece, f"ends after {len(got)} bytes"
        got += piece
    assert got == data


def blocking():
    s = socket.socket()
    assert s.getsockname() == ("0.0.0.0", 0)
    s.connect(PEER)
    here = s.getsockname()
    assert here[0] == OURS and here[1] >= 32768, here
    assert s.getpeername() == PEER
    comes_back(s)
    assert s.connect_ex(PEER) == errno.EISCONN
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b"", "the peer closes when we do"
    # Refused, it may try another address.
    s = socket.socket()
    refuses(lambda: s.connect(NOBODY), errno.ECONNREFUSED)
    s.connect(PEER)
    comes_back(s)


def with_an_address():
    """Calls that send may open a connection, and name its peer again; those that receive name none."""
    for blocks in (True, False):
        s = socket.socket()
        s.setblocking(blocks)
        if blocks:
            s.bind((OURS, 0))
            assert s.sendmsg([b"he", b"llo"], [], socket.MSG_FASTOPEN, PEER) == 5
        else:
            refuses(lambda: s.sendto(b"hello", socket.MSG_FASTOPEN, PEER), errno.EINPROGRESS)
            s.settimeout(LIMIT)
            assert s.sendto(b"hello", PEER) == 5
        assert s.getsockname()[0] == OURS, "it is no connection of the kernel's"
        got = b""
        while len(got) < 5:
            piece, _, _, who = s.recvmsg(5)
            got += piece
            assert who is None, who
        assert got == b"hello"
        assert s.sendmsg([b"x"], [], 0, PEER) == 1
        assert s.recvmsg_into([bytearray(1)])[3] is None


def watched(make, register, wait):
    for port, expected in [(PEER, 0), (NOBODY, errno.ECONNREFUSED)]:
        s = socket.socket()
        s.setblocking(False)
        poller = make()
        assert s.connect_ex(port) == errno.EINPROGRESS
        register(poller, s)
        assert wait(poller), "an event"
        assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == expected
        assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, "once"
        if expected == 0:
            assert s.getpeername() == PEER
            s.settimeout(LIMIT)
            comes_back(s)
        else:
            refuses(s.getpeername, errno.ENOTCONN)


def watched_before():
    """nginx registers, edge-triggered, and connects then."""
    s = socket.socket()
    s.setblocking(False)
    poller = select.epoll()
    poller.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
    assert s.connect_ex(PEER) == errno.EINPROGRESS
    assert poller.poll(LIMIT) == [(s.fileno(), select.EPOLLOUT)]
    s.send(b"hello")
    # An edge may be told twice.
    events = poller.poll(LIMIT)
    while events and not events[0][1] & select.EPOLLIN:
        events = poller.poll(LIMIT)
    assert events, "what comes back is told"


def from_our_port():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((OURS, 5555))
    s.connect(PEER)
    assert s.getsockname() == (OURS, 5555)
    comes_back(s)


def from_any_port_of_ours():
    """Two at once, and a third after one has closed: each has a port of its own."""
    ports, open_ones = set(), []
    for _ in range(3):
        s = socket.socket()
        s.bind((OURS, 0))
        here = s.getsockname()
        s.connect(PEER)
        assert s.getsockname() == here and here[1] not in ports, (here, ports)
        comes_back(s)
        ports.add(here[1])
        open_ones.append(s)
        if len(ports) == 2:
            open_ones.pop(0).close()


def again_and_waiting():
    """A handshake that is under way is waited for by who connects once more and waits."""
    for port, expected in [(PEER, (0, errno.EISCONN)), (NOBODY, (errno.ECONNREFUSED,))]:
        s = socket.socket()
        s.setblocking(False)
        assert s.connect_ex(port) == errno.EINPROGRESS
        s.setblocking(True)
        said = s.connect_ex(port)
        assert said in expected, (port, said)
        if port == PEER:
            s.settimeout(LIMIT)
            comes_back(s)


def with_another_buffer():
    """Who has no peer yet cannot write, whatever room it asks for."""
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(SILENT) == errno.EINPROGRESS
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    assert select.select([], [s], [], 0) == ([], [], [])
    refuses(s.getpeername, errno.ENOTCONN)


def to_ourselves():
    server = socket.create_server((OURS, 7000))
    assert server.getsockname() == (OURS, 7000)
    client = socket.create_connection((OURS, 7000))
    accepted, who = server.accept()
    assert who == client.getsockname() and accepted.getsockname() == client.getpeername()
    accepted.sendall(b"hello")
    assert client.recv(5) == b"hello"
    refuses(lambda: socket.create_connection((OURS, 7001)), errno.ECONNREFUSED)


def by_ipv6():
    s = socket.socket(socket.AF_INET6)
    s.connect(("::ffff:" + PEER[0], PEER[1]))
    assert s.getsockname()[0] == "::ffff:" + OURS
    comes_back(s)


def many_threads():
    def one(failed):
        try:
            with socket.create_connection(PEER) as s:
                comes_back(s, 2000)
        except BaseException as e:
            failed.append(e)

    failed = []
    threads = [threading.Thread(target=one, args=(failed,)) for _ in range(40)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, failed


async def by_asyncio():
    async def one():
        reader, writer = await asyncio.open_connection(*PEER)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    await asyncio.wait_for(asyncio.gather(*(one() for _ in range(50))), LIMIT)
    try:
        await asyncio.open_connection(*NOBODY)
    except ConnectionRefusedError:
        return
    raise AssertionError("no error")


def elsewhere():
    """Where the device does not lead, the kernel is asked; here it knows no way."""
    refuses(lambda: socket.create_connection(("192.0.2.1", 80)), errno.ENETUNREACH)


socket.setdefaulttimeout(LIMIT)
for way in [blocking, with_an_address, from_our_port, from_any_port_of_ours, again_and_waiting, with_another_buffer,
            to_ourselves, by_ipv6, many_threads, watched_before, elsewhere]:
    way()
    print(way.__name__)
select_writes = lambda s: select.select([s], [s], [s], LIMIT)[1]
watched(list, lambda l, s: l.append(s), lambda l: select_writes(l[0]))
watched(select.poll, lambda p, s: p.register(s, select.POLLOUT), lambda p: p.poll(LIMIT * 1000))
watched(select.epoll, lambda p, s: p.register(s, select.EPOLLOUT | select.EPOLLET), lambda p: p.poll(LIMIT))
asyncio.run(by_asyncio())
print("all")
