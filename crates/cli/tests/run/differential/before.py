"""Options that are set before a socket is bound or connected, and have an effect that the stack does not have."""
import socket, sys
OURS, PEER = sys.argv[1:3]
def each(use):
    for level, option, value in [(1, 36, 7), (6, 2, 1000), (6, 9, 1), (6, 13, b"reno"), (0, 11, 1)]:
        s = socket.socket(); s.setsockopt(level, option, value); use(s); s.close()
each(lambda s: s.bind((OURS, 0)))
each(lambda s: s.connect((PEER, 8080)))
s = socket.socket(); s.setsockopt(1, 25, b"lo\0")
try: s.bind((OURS, 0)); print("bound on the stack, though it is to be on lo")
except OSError as e: print(f"on lo: {e.errno}")
s = socket.socket(); s.setsockopt(1, 25, b"gw0\0"); s.connect((PEER, 8080)); s.sendall(b"x"); print(f"on gw0: {s.recv(8)}")
