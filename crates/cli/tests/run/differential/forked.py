"""Sockets that a forked child, or a process that was sent a descriptor of it, binds, listens with or connects: what the other descriptor is then."""
import errno, os, socket, sys
OURS, PEER = sys.argv[1:3]
def name(code): return errno.errorcode.get(code, str(code))
def said(f):
    try: return str(f())
    except OSError as e: return name(e.errno)
def where(s):
    ip, port = s.getsockname(); return f"{'ours' if ip == OURS else ip}:{'any' if port else 0}"
def forked(s, f, leaves):
    """Has a child do `f` with `s`; how it ends."""
    r, w = os.pipe(); stay, go = os.pipe(); child = os.fork()
    if child == 0:
        os.close(go); os.write(w, said(lambda: f(s)).encode())
        if not leaves: os.read(stay, 1)
        os._exit(0)
    os.close(stay); result = os.read(r, 64).decode(); os.close(r); os.close(w)
    if leaves: os.waitpid(child, 0)
    return result, lambda: (os.close(go), leaves or os.waitpid(child, 0))
def sent(s, f, leaves):
    """Has a process that is sent `s` do `f` with it."""
    here, there = socket.socketpair(); end = [None]
    r, w = os.pipe(); stay, go = os.pipe(); child = os.fork()
    if child == 0:
        os.close(go); s.close(); _, fds, *_ = socket.recv_fds(there, 1, 1); s = socket.socket(fileno=fds[0])
        os.write(w, said(lambda: f(s)).encode())
        if not leaves: os.read(stay, 1)
        os._exit(0)
    os.close(stay); socket.send_fds(here, [b"x"], [s.fileno()]); result = os.read(r, 64).decode(); os.close(r); os.close(w)
    if leaves: os.waitpid(child, 0)
    return result, lambda: (os.close(go), leaves or os.waitpid(child, 0))
def bind(s): s.bind((OURS, 0)); return where(s)
def listen(s): s.bind((OURS, 0)); s.listen(4); return where(s)
def connect(s): s.connect((PEER, 8080)); return "ok"
CASES = {
 "binds": (bind, [where, lambda s: s.listen(4), where]), "listens": (listen, [where, lambda s: s.accept()]), "binds, accept": (bind, [lambda s: s.accept()]),
 "connects": (connect, [lambda s: s.getpeername()[1], lambda s: s.send(b"abc"), lambda s: s.recv(8)]),
}
for way, run in (("forked", forked), ("sent", sent)):
    for leaves in (False, True):
        for case, (f, calls) in CASES.items():
            s = socket.socket(); result, end = run(s, f, leaves); s.settimeout(2 if case == "connects" else 0)
            print(f"{way}{' and gone' if leaves else ''} {case}: {result}, {', '.join(said(lambda: c(s)) for c in calls)}"); end(); s.close()
        for case, f in (("binds datagrams", bind), ("connects datagrams", connect)):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); result, end = run(s, f, leaves)
            print(f"{way}{' and gone' if leaves else ''} {case}: {result}, {where(s)}"); end(); s.close()
