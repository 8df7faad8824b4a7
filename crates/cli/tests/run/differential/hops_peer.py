"""Peer of hops.py: prints the hop limits of packets that came from an address, by the port of the case."""
import socket, struct, sys, threading
HERE, FROM = sys.argv[1:3]
FAMILY = socket.AF_INET6 if ":" in HERE else socket.AF_INET
BYTES = socket.inet_pton(FAMILY, FROM)
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind(("eth0", 0))
raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)

def take(c):
    got = 0
    while got < 5000: got += len(c.recv(65536))
    c.close()

def serve(port):
    l = socket.create_server((HERE, port), family=FAMILY)
    take(l.accept()[0])

def order():
    while True:
        b, _ = orders.recvfrom(100)
        if b in (b"end", b"z") or not b.isdigit(): continue
        c = socket.create_connection((FROM, int(b))); take(c)

orders = socket.socket(FAMILY, socket.SOCK_DGRAM); orders.bind((HERE, 9100))
sinks = []
for port in range(9008, 9016):
    sinks.append(socket.socket(FAMILY, socket.SOCK_DGRAM)); sinks[-1].bind((HERE, port))
for port in range(9001, 9005): threading.Thread(target=serve, args=(port,), daemon=True).start()
threading.Thread(target=order, daemon=True).start()
print("ready", flush=True)
seen = {}
while True:
    f = raw.recv(65536)
    kind = struct.unpack("!H", f[12:14])[0]
    if kind == 0x0800 and f[26:30] == BYTES:
        hops, proto, first, upper = f[22], f[23], struct.unpack("!H", f[20:22])[0] & 0x1fff == 0, f[14 + (f[14] & 15) * 4:]
    elif kind == 0x86dd and f[22:38] == BYTES:
        hops, proto, first, upper = f[21], f[20], True, f[54:]
        if proto == 44: proto, first, upper = upper[0], struct.unpack("!H", upper[2:4])[0] & 0xfff8 == 0, upper[8:]
    else: continue
    if proto not in (6, 17): continue
    if not first:
        seen.setdefault("pieces", set()).add(hops); continue
    ports = struct.unpack("!HH", upper[:4])
    if 9100 in ports:
        if upper[8:] [:3] == b"end": break
        continue
    for port in ports:
        if 9001 <= port <= 9015: seen.setdefault(port, set()).add(hops)
for port in sorted(seen, key=str): print(port, sorted(seen[port]))
