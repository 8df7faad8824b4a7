"""Every option of five levels on sockets in six states: getsockopt, then setsockopt to 1 and to 0 on a new socket
each, and getsockopt after it."""
import errno, socket, sys, ctypes

OURS, PEER = sys.argv[1:3]
FAMILY = socket.AF_INET6 if ":" in OURS else socket.AF_INET
LEVELS = {"SOL_SOCKET": 1, "IPPROTO_IP": 0, "IPPROTO_IPV6": 41, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17}
libc = ctypes.CDLL(None, use_errno=True)

def name(code):
    return errno.errorcode.get(code, str(code))

def get(fd, level, option):
    value, length = ctypes.create_string_buffer(b"\xee" * 300, 300), ctypes.c_uint32(300)
    if libc.getsockopt(fd, level, option, value, ctypes.byref(length)) != 0:
        return name(ctypes.get_errno())
    return f"{length.value}:{value.raw[:min(length.value, 16)].hex()}"

def put(fd, level, option, number):
    value = ctypes.c_int(number)
    if libc.setsockopt(fd, level, option, ctypes.byref(value), 4) != 0:
        return name(ctypes.get_errno())
    return "ok"

def stream():
    return socket.socket(FAMILY, socket.SOCK_STREAM)

def fresh():
    return stream(), []

def bound():
    s = stream(); s.bind((OURS, 0)); return s, []

def listening():
    s = stream(); s.bind((OURS, 0)); s.listen(8); return s, []

def connected():
    s = stream(); s.connect((PEER, 8080)); return s, []

def udp():
    s = socket.socket(FAMILY, socket.SOCK_DGRAM); s.bind((OURS, 0)); return s, []

def udp_connected():
    s = socket.socket(FAMILY, socket.SOCK_DGRAM); s.connect((PEER, 8080)); return s, []

STATES = [fresh, bound, listening, connected, udp, udp_connected]
for state in STATES:
    for level_name, level in LEVELS.items():
        for option in range(256):
            s, kept = state()
            before = get(s.fileno(), level, option)
            one = put(s.fileno(), level, option, 1)
            after = get(s.fileno(), level, option)
            s.close()
            s, kept = state()
            zero = put(s.fileno(), level, option, 0)
            after0 = get(s.fileno(), level, option)
            s.close()
            print(f"{state.__name__} {level_name} {option}: get {before}; 1 {one}, {after}; 0 {zero}, {after0}")
