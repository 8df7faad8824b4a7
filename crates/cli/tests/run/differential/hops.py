"""Hop limits set before and after bind, listen and connect; what each socket then says they are."""
import socket, struct, sys
OURS, PEER = sys.argv[1:3]
SIX = ":" in OURS
FAMILY = socket.AF_INET6 if SIX else socket.AF_INET
LEVEL, NAME = (41, 16) if SIX else (0, 2)
told = lambda s: s.getsockopt(LEVEL, NAME)
tell = lambda s, hops: s.setsockopt(LEVEL, NAME, hops)

def tcp():
    return socket.socket(FAMILY, socket.SOCK_STREAM)

def udp():
    return socket.socket(FAMILY, socket.SOCK_DGRAM)

def talk(s, port, then=None):
    s.connect((PEER, port))
    if then: tell(s, then)
    s.sendall(b"x" * 5000)
    print(port, told(s))
    while s.recv(65536): pass  # the peer closes first
    s.close()

s = tcp(); tell(s, 11); talk(s, 9001)
s = tcp(); s.bind((OURS, 0)); tell(s, 12); talk(s, 9002)
s = tcp(); talk(s, 9003, 13)
s = tcp(); tell(s, 14); tell(s, -1); talk(s, 9004)
for port, before, after, accepted in [(9005, 15, None, None), (9006, None, 16, None), (9007, 17, None, 18)]:
    l = tcp(); l.setsockopt(1, 2, 1)
    if before: tell(l, before)
    l.bind((OURS, port)); l.listen(8)
    if after: tell(l, after)
    u = udp(); u.sendto(str(port).encode(), (PEER, 9100)); u.close()
    s, _ = l.accept()
    print(port, told(l), told(s))
    if accepted: tell(s, accepted)
    s.sendall(b"y" * 5000)
    while s.recv(65536): pass
    s.close(); l.close()
s = udp(); tell(s, 19); s.sendto(b"z", (PEER, 9008)); print(9008, told(s))
s = udp(); s.bind((OURS, 0)); tell(s, 20); s.sendto(b"z" * 4000, (PEER, 9009)); print(9009, told(s))
s = udp(); s.connect((PEER, 9010)); tell(s, 21); s.send(b"z"); print(9010, told(s))
s = udp(); s.sendto(b"z", (PEER, 9011)); print(9011, told(s))
s = udp(); tell(s, 1); tell(s, -1); s.sendto(b"z", (PEER, 9012)); print(9012, told(s))
CONTROL = (41, 52) if SIX else (0, 2)  # IPV6_HOPLIMIT, IP_TTL
def with_limit(s, hops, to=None): return s.sendmsg([b"z"], [(*CONTROL, struct.pack("i", hops))], 0, *([to] if to else []))
s = udp(); tell(s, 22); with_limit(s, 23, (PEER, 9013)); print(9013, told(s))
s = udp(); s.connect((PEER, 9014)); with_limit(s, 24); s.send(b"z"); print(9014, told(s))
s = udp(); s.bind((OURS, 0)); with_limit(s, 255, (PEER, 9015)); print(9015, told(s))
for value in (-2, -1, 0, 1, 256):
    s = udp(); s.connect((PEER, 9100))
    try: print("control", value, with_limit(s, value))
    except OSError as e: print("control", value, e.errno)
for size in (1, 2, 8):
    s = udp(); s.connect((PEER, 9100))
    try: print("control of", size, s.sendmsg([b"z"], [(*CONTROL, bytes([9, *bytes(size - 1)]))]))
    except OSError as e: print("control of", size, e.errno)
for value in (-2, 0, 256):
    for kind in (tcp, udp):
        s = kind(); s.bind((OURS, 0))
        try: tell(s, value); print(value, told(s))
        except OSError as e: print(value, e.errno)
udp().sendto(b"end", (PEER, 9100))
