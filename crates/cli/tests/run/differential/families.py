"""Sockets of both families, unbound or bound to addresses of either, and what they send or connect to: addresses of either family, mapped or not."""
import ctypes, errno, select, socket, struct, sys
OURS, PEER = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
def name(code): return errno.errorcode.get(code, str(code))
def other(ip):
    """The same host's address of the other family."""
    if ":" in ip: net, host = ip.split(":")[1], ip.rpartition(":")[2]; return f"10.{net}.0.{int(host, 16)}"
    _, net, _, host = ip.split("."); return f"fd00:{net}::{int(host):x}"
OURS, PEER = ((ip, other(ip)) if "." in ip else (other(ip), ip) for ip in (OURS, PEER))
# Below the ports that the kernel gives to connections.
port = 31_000
def four(ip, port): return struct.pack("=HH4s8x", 2, socket.htons(port), socket.inet_aton(ip))
def six(ip, port): return struct.pack("=HHI16sI", 10, socket.htons(port), 0, socket.inet_pton(10, ip), 0)
def addresses(pair, port):
    return {"four": four(pair[0], port), "mapped": six("::ffff:" + pair[0], port), "six": six(pair[1], port)}
ANY = {"nothing": None, "any": lambda p: four("0.0.0.0", p), "any_six": lambda p: six("::", p), "any_mapped": lambda p: six("::ffff:0.0.0.0", p)}
BOUND = ANY | {key: (lambda p, key=key: addresses(OURS, p)[key]) for key in ("four", "mapped", "six")}
def result(got): return "ok" if got >= 0 else name(ctypes.get_errno())
def bind(s, where):
    global port; port += 1
    if where is None: return "-"
    raw = where(port); return result(libc.bind(s.fileno(), raw, len(raw)))
def connect(s, raw):
    got = result(libc.connect(s.fileno(), raw, len(raw)))
    if got == "EINPROGRESS":
        p = select.poll(); p.register(s, 4); p.poll(5000); got = name(s.getsockopt(1, 4))
    return got
def send(s, raw=None):
    got = libc.sendto(s.fileno(), b"hello", 5, 0x4000, raw, len(raw) if raw else 0)
    return str(got) if got >= 0 else name(ctypes.get_errno())
def recv(s):
    p = select.poll(); p.register(s, 1)
    if not p.poll(1000): return "nothing"
    try: data, a = s.recvfrom(64)
    except OSError as e: return name(e.errno)
    return f"{data} {where(a)}" if a else str(data)
def echo(s, raw=None):
    sent = send(s, raw); return f"{sent} {recv(s)}" if sent == "5" else sent
def where(a): return f"{a[0].replace('::ffff:', 'mapped ').replace(OURS[0], 'ours').replace(OURS[1], 'ours').replace(PEER[0], 'peer').replace(PEER[1], 'peer')}"
def ends(s):
    out = []
    for f in (s.getsockname, s.getpeername):
        try: out.append(where(f()))
        except OSError as e: out.append(name(e.errno))
    return " ".join(out)
for family_name, family, only in (("AF_INET", 2, None), ("AF_INET6", 10, 0), ("AF_INET6_only", 10, 1)):
    for bound, make in BOUND.items():
        for target in ("four", "mapped", "six"):
            def fresh(kind):
                s = socket.socket(family, kind); s.setblocking(False); s.setsockopt(1, 2, 1)
                if only is not None: s.setsockopt(41, 26, only)
                return s, bind(s, make)
            to = lambda p: addresses(PEER, p)[target]
            s, b = fresh(socket.SOCK_DGRAM); print(f"{family_name} {bound} sendto {target}: {b} {echo(s, to(8080))} {ends(s)}"); s.close()
            s, b = fresh(socket.SOCK_DGRAM); c = connect(s, to(8080)); print(f"{family_name} {bound} datagrams {target}: {b} {c} {ends(s)} {echo(s)}"); s.close()
            s, b = fresh(socket.SOCK_STREAM); c = connect(s, to(8080)); print(f"{family_name} {bound} stream {target}: {b} {c} {ends(s)} {echo(s)}"); s.close()
