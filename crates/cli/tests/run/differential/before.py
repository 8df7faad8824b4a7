"""Options that are set before a socket is bound or connected, and have an effect that the stack does not have."""
import ctypes, errno, socket, struct, sys
OURS, PEER = sys.argv[1:3]
FAMILY = socket.AF_INET6 if ":" in OURS else socket.AF_INET
libc = ctypes.CDLL(None, use_errno=True)
VALUES = {(6, 2): 1000, (0, 2): 33, (6, 10): 2000, (6, 7): 3, (6, 8): 9, (1, 47): 1 << 20, (6, 13): b"reno", (0, 51): 30000 << 16 | 29000}
def put(s, level, option):
    value = VALUES.get((level, option), 1)
    if not isinstance(value, bytes): value = struct.pack("i", value)
    return 0 if libc.setsockopt(s.fileno(), level, option, value, len(value)) == 0 else ctypes.get_errno()
def get(s, level, option):
    try: return s.getsockopt(level, option, 64)
    except OSError as e: return e.errno
# They bind it to an interface, or make another protocol of it.
NOT = {(1, 25), (1, 62), (6, 19), (6, 31), (0, 35), (0, 16), (0, 17), (41, 1), (41, 34), (41, 35)}
for level in (1, 0, 6) if FAMILY == socket.AF_INET else (1, 0, 6, 41):
    for option in range(256):
        if (level, option) in NOT: continue
        fresh = socket.socket(FAMILY); default = get(fresh, level, option)
        takes = put(fresh, level, option) == 0 and get(fresh, level, option) != default; fresh.close()
        # One that a bound socket refuses.
        bound = socket.socket(FAMILY); bound.bind((OURS, 0)); refused = takes and put(bound, level, option) == errno.ENOPROTOOPT; bound.close()
        if not refused: continue
        for use in (lambda s: s.bind((OURS, 0)), lambda s: s.connect((PEER, 8080))):
            s = socket.socket(FAMILY); put(s, level, option); use(s); s.close()
        print(f"level {level} option {option}")
s = socket.socket(FAMILY); s.setsockopt(1, 25, b"lo\0")
try: s.bind((OURS, 0)); print("bound on the stack, though it is to be on lo")
except OSError as e: print(f"on lo: {e.errno}")
s = socket.socket(FAMILY); s.setsockopt(1, 25, b"gw0\0"); s.connect((PEER, 8080)); s.sendall(b"x"); print(f"on gw0: {s.recv(8)}")
