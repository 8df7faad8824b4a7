"""Options that are set at each point of a socket's life, and what they read at this point and at those that follow."""
import ctypes, errno, socket, struct, sys
OURS, PEER = sys.argv[1:3]
V6 = ":" in OURS
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
LEVELS = {"SOL_SOCKET": 1, "IPPROTO_IP": 0, "IPPROTO_IPV6": 41, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17}
libc = ctypes.CDLL(None, use_errno=True)
def name(code): return errno.errorcode.get(code, str(code))
def get(s, level, option):
    value, length = ctypes.create_string_buffer(b"\xee" * 64, 64), ctypes.c_uint32(64)
    if libc.getsockopt(s.fileno(), level, option, value, ctypes.byref(length)) != 0: return name(ctypes.get_errno())
    return value.raw[:min(length.value, 16)].hex()
def put(s, level, option, number):
    value = number if isinstance(number, bytes) else struct.pack("i", number)
    return "ok" if libc.setsockopt(s.fileno(), level, option, value, len(value)) == 0 else name(ctypes.get_errno())
def stream(): return socket.socket(FAMILY)
def datagrams(): return socket.socket(FAMILY, socket.SOCK_DGRAM)
VALUES = {(1, 13): struct.pack("ii", 1, 5), (1, 20): struct.pack("qq", 5, 0), (1, 21): struct.pack("qq", 5, 0), (1, 7): 30000, (1, 8): 30000, (1, 12): 3, (6, 2): 1000, (6, 4): 70, (6, 5): 7, (6, 6): 3, (6, 7): 3, (6, 18): 5000, (6, 23): 4, (0, 1): 0x48}
# They detach, or bind to an interface, or make another protocol of it, or are other helpers of the kernel's.
NOT = {(1, 25), (1, 26), (1, 27), (1, 50), (1, 51), (1, 62), (6, 13), (6, 31), (6, 19), (6, 35), (0, 2), (41, 1)}
def taken(make, level, option):
    """True if the kernel takes the option from a new socket, and reads it."""
    s = make(); ok = put(s, level, option, VALUES.get((level, option), 1)) == "ok" and not get(s, level, option).startswith("E"); s.close(); return ok
def options(make): return [(n, level, o) for n, level in LEVELS.items() for o in range(256) if (level, o) not in NOT and taken(make, level, o)]
def arrive(l):
    k = socket.create_connection((PEER, 7008)); k.sendall(f"{OURS},{l.getsockname()[1]},".encode()); assert k.recv(9) == b"connected"
    a, _ = l.accept(); return k, a
POINTS = ("new", "bound", "listening")
for n, level, o in options(stream):
    value = VALUES.get((level, o), 1)
    for point in range(3):
        s = stream(); read = []
        if point == 0: read.append(put(s, level, o, value))
        s.bind((OURS, 0))
        if point == 1: read.append(put(s, level, o, value))
        if point <= 1: read.append(get(s, level, o))
        s.listen(4)
        if point == 2: read.append(put(s, level, o, value))
        read.append(get(s, level, o))
        k, a = arrive(s); read.append(get(a, level, o))
        a.close(); k.close(); s.close()
        print(f"{POINTS[point]} {n} {o}: {', '.join(read)}")
    s = stream(); read = [put(s, level, o, value)]; s.connect((PEER, 7002)); read.append(get(s, level, o)); s.sendall(b"g")
    while s.recv(64): pass
    read.append(get(s, level, o)); s.close(); print(f"connecting {n} {o}: {', '.join(read)}")
    s = stream(); s.connect((PEER, 7002)); s.sendall(b"g")
    while s.recv(64): pass
    read = [put(s, level, o, value), get(s, level, o)]; s.close(); print(f"closed {n} {o}: {', '.join(read)}")
    s = stream(); s.connect((PEER, 7005)); s.sendall(b"g")
    try: s.recv(64)
    except ConnectionResetError: pass
    read = [put(s, level, o, value), get(s, level, o)]; s.close(); print(f"reset {n} {o}: {', '.join(read)}")
for n, level, o in options(datagrams):
    value = VALUES.get((level, o), 1)
    for how in ("bind", "connect", "send"):
        s = datagrams(); read = [put(s, level, o, value)]
        if how == "bind": s.bind((OURS, 0))
        elif how == "connect": s.connect((PEER, 8080))
        else: s.sendto(b"x", (PEER, 8080))
        read.append(get(s, level, o)); s.close(); print(f"datagrams {how} {n} {o}: {', '.join(read)}")
