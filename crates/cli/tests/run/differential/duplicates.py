"""Descriptors of a socket that are duplicated before it is bound, or connected: all of them are the socket."""
import os, socket, sys
OURS, PEER = sys.argv[1:3]
def of(fd): return socket.socket(fileno=fd)
WAYS = {"dup": os.dup, "dup2": lambda fd: os.dup2(fd, 100), "F_DUPFD": lambda fd: socket.dup(fd)}
for way, duplicate in WAYS.items():
    s = socket.socket(); other = of(duplicate(s.fileno())); s.bind((OURS, 0)); other.listen(4)
    print(f"{way} bound: {other.getsockname()[0] == OURS} {other.getsockname() == s.getsockname()} {s.getsockopt(1, 30)}")
    s.close(); other.close()
    s = socket.socket(); other = of(duplicate(s.fileno())); s.connect((PEER, 8080)); other.sendall(b"abc")
    print(f"{way} connected: {s.recv(8)} {other.getpeername()[1]} {other.getsockname() == s.getsockname()}")
    s.close(); other.sendall(b"def"); print(f"{way} closed: {other.recv(8)}"); other.close()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); other = of(duplicate(s.fileno())); s.connect((PEER, 8080))
    other.send(b"abc"); print(f"{way} datagrams: {s.recv(8)} {other.getpeername()[1]}"); s.close(); other.close()
