"""What a listener passes on, what a process without descriptors does, and a
server of asyncio. argv[1]: our address; the test's clients connect to ports
7001 (which is told how it goes), 7002 and 7003."""

import asyncio
import errno
import resource
import socket
import struct
import sys

OURS = sys.argv[1]
LIMIT = 20


def inherits():
    """Options set before bind and on the listener are those of its connections."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 30_000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 70, 0))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x28)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    s.bind((OURS, 7001))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 33)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0, "haproxy asks before it listens"
    s.listen()
    accepted, _ = s.accept()
    for of in (s, accepted):
        assert of.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert of.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 60_000
        assert struct.unpack("ll", of.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)) == (70, 0)
        assert struct.unpack("ii", of.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
        assert of.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == (of is s)
        assert of.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 33
        assert of.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 9
        assert of.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0x28
        assert of.getsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE) == 1
        info = struct.unpack("8B24I", of.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))
        assert info[0] == (10 if of is s else 1), "listens, or is established"
    state, mss, pmtu, rtt_us, cwnd = (info[n] for n in (0, 10, 21, 23, 26))
    assert pmtu == 1500 and mss == 1448, (pmtu, mss)
    assert 0 < rtt_us < 10_000_000 and 2 <= cwnd <= 10_000, (rtt_us, cwnd)
    assert accepted.recv(2) == b"hi"
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    # RabbitMQ gives what it has accepted its listener's, whatever that is.
    accepted.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
    assert accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) in (0, 0xB8), "its level's"
    # And the linger time of zero resets, as the client will see.
    accepted.send(b"go")
    accepted.close()
    s.close()


def without_descriptors():
    """Connections for which there is no descriptor wait until there is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    s = socket.create_server((OURS, 7002))
    resource.setrlimit(resource.RLIMIT_NOFILE, (s.fileno() + 6, hard))
    held, refused = [], 0
    for _ in range(2):
        try:
            while True:
                held.append(s.accept()[0])
        except OSError as e:
            assert e.errno == errno.EMFILE, e
            refused += 1
        for one in held:
            assert one.recv(5) == b"first"
            one.sendall(b"hello")
            one.close()
        held = []
    assert refused == 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    s.settimeout(LIMIT)
    while True:
        one, _ = s.accept()
        asked = one.recv(5)
        one.sendall(b"hello")
        one.close()
        if asked == b"last":
            return


async def by_asyncio():
    over, answering = asyncio.Event(), set()

    async def answer(reader, writer):
        answering.add(asyncio.current_task())
        while line := await reader.readline():
            if line == b"over\n":
                others = answering - {asyncio.current_task()}
                if others:
                    await asyncio.wait(others)
                over.set()
                break
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(answer, OURS, 7003)
    async with server:
        await over.wait()


inherits()
without_descriptors()
asyncio.run(by_asyncio())
print("all")
