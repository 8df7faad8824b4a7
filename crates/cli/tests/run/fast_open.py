"""An echo that takes data with a SYN (Fast Open), told so at three times; or its client."""

import socket
import sys

TCPI_OPT_SYN_DATA = 32  # linux/tcp.h
addr = (sys.argv[1], 80)


def serve(when):
    server = socket.socket()

    def take(now):
        if now == when:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)

    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    take("before")
    server.bind(addr)
    take("bound")
    server.listen()
    take("listening")
    assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN) == 5
    while True:
        stream = server.accept()[0]
        stream.sendall(stream.recv(100))
        stream.close()


def ask():
    stream = socket.socket()
    stream.sendto(b"hello", socket.MSG_FASTOPEN, addr)
    said = stream.recv(100).decode()
    options = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5]
    print(said + ", it came " + ("with the SYN" if options & TCPI_OPT_SYN_DATA else "later"))


if len(sys.argv) > 2:
    serve(sys.argv[2])
for _ in range(2):
    ask()
