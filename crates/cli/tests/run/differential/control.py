"""Control data: what each option adds to a received message, and what a sent message with each level and type of it does."""
import array, ctypes, errno, os, socket, struct, sys
OURS, PEER = sys.argv[1:3]
V6 = ":" in OURS
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
HERE = socket.inet_pton(FAMILY, OURS)
LEVELS = {"SOL_SOCKET": 1, "IPPROTO_IP": 0, "IPPROTO_IPV6": 41, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17}
# They detach, filter, encapsulate or cork.
NOT = {(1, 25), (1, 26), (1, 27), (1, 50), (1, 51), (1, 62), (17, 1), (17, 100), (6, 3), (6, 19), (6, 31), (0, 2), (0, 16), (41, 1), (41, 22), (41, 34)}
# Times, a checksum, a flow label.
OTHER = {(1, 29), (1, 35), (1, 37), (1, 63), (1, 64), (1, 65), (0, 23), (41, 11)}
# Offset of the interface's number.
INTERFACE = {(0, 8): 0, (41, 2): 16, (41, 50): 16}
DEVICE = "gw9" if OURS.startswith("10.9.") or ":9:" in OURS else "gw0"
port = 30_000
def name(code): return errno.errorcode.get(code, str(code))
def said(f):
    try: return str(f())
    except socket.timeout: return "nothing"
    except OSError as e: return name(e.errno)
def datagrams():
    global port; port += 1
    s = socket.socket(FAMILY, socket.SOCK_DGRAM); s.settimeout(1); return s
def stream(): s = socket.socket(FAMILY); s.settimeout(1); return s
def put(s, level, option, value=1): s.setsockopt(level, option, value); return "ok"
def taken(kind, level, option):
    s = kind(); ok = said(lambda: put(s, level, option)) == "ok"; s.close(); return ok
def read(s):
    data, controls, flags, _ = s.recvmsg(64, 512)
    def text(level, kind, value):
        if (level, kind) in OTHER: return f"{level}:{kind}:{len(value)} bytes"
        if (level, kind) in INTERFACE:
            at, device = INTERFACE[level, kind], struct.pack("i", socket.if_nametoindex(DEVICE)); value = value[:at] + value[at:at + 4].replace(device, b"dev!") + value[at + 4:]
        return f"{level}:{kind}:{value.hex().replace(HERE.hex(), 'ours')}"
    return f"{data} {flags:#x} [{', '.join(text(*c) for c in controls)}]"
def before_bind(s, f):
    f(); s.bind((OURS, port))
def after_bind(s, f):
    s.bind((OURS, port)); f()
for level_name, level in LEVELS.items():
    for option in range(128):
        if (level, option) in NOT: continue
        if level != 6 and taken(datagrams, level, option):
            for order in (before_bind, after_bind):
                s = datagrams(); result = []
                order(s, lambda: result.append(said(lambda: put(s, level, option))))
                s.sendto(b"hello", (PEER, 8080)); print(f"receive datagrams {order.__name__} {level_name} {option}: {result[0]} {said(lambda: read(s))}"); s.close()
        if level != 17 and taken(stream, level, option):
            s = stream(); s.connect((PEER, 8080)); result = said(lambda: put(s, level, option)); s.sendall(b"hello")
            print(f"receive stream {level_name} {option}: {result} {said(lambda: read(s))}"); s.close()
def small(s):
    data, controls, flags, _ = s.recvmsg(64, 4); return f"{flags:#x} {len(controls)}"
s = datagrams(); s.bind((OURS, port)); put(s, *((41, 51) if V6 else (0, 12))); s.sendto(b"hello", (PEER, 8080)); print(f"receive datagrams no_room: {small(s)}"); s.close()
SIZES = (0, 1, 2, 4, 8, 12, 20, 24)
def connected(kind):
    s = kind(); s.connect((PEER, 8080)); return s
udp, tcp = connected(datagrams), connected(stream)
for level_name, level in (LEVELS | {"level 255": 255}).items():
    for kind in range(96):
        for fill in (0, 1):
            def sent(s, size):
                value = struct.pack("i", fill).ljust(24, b"\0")[:size]
                return s.sendmsg([b"x"], [(level, kind, value)])
            for s, what in ((udp, "datagram"), (tcp, "stream")):
                if what == "stream" and (level, kind) == (1, 1): continue
                print(f"send {what} {level_name} {kind} of {fill}: {' '.join(said(lambda: sent(s, size)) for size in SIZES)}")
udp.close(); tcp.close()
null = os.open("/dev/null", os.O_RDWR)
for what, fds in (("a_file", [null]), ("files", [null] * 253), ("too_many", [null] * 254), ("itself", None), ("a_bad_one", [-1])):
    for kind in (stream, datagrams):
        s = connected(kind); own = fds or [s.fileno()]
        print(f"send {kind.__name__} rights {what}: {said(lambda: s.sendmsg([b'hello'], [(1, 1, array.array('i', own))]))} {said(lambda: read(s))}"); s.close()
# Two messages in one call: the second one counts, and what is malformed.
s = connected(datagrams); print(f"send datagrams twice: {said(lambda: s.sendmsg([b'x'], [(0, 1, struct.pack('i', 8)), (0, 1, struct.pack('i', 300))]))}"); s.close()
