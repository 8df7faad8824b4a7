"""Descriptors of a socket that are duplicated before it is bound, or connected, or that a program starts with: all of them are the socket."""
import ctypes, fcntl, os, socket, subprocess, sys
OURS, PEER = sys.argv[1:3]
if len(sys.argv) > 3:
    # Started below, with two descriptors of one socket.
    s, other = (socket.socket(fileno=int(fd)) for fd in sys.argv[4:6])
    if sys.argv[3] == "bound": s.bind((OURS, 0)); other.listen(4)
    else: s.connect((PEER, 8080)); other.sendall(b"abc"); s.recv(8)
    print(other.getsockname()[0] == OURS, other.getsockname() == s.getsockname(), flush=True); os._exit(0)
def of(fd): return socket.socket(fileno=fd)
libc = ctypes.CDLL(None, use_errno=True)
def passed(fd):
    """Sends it to itself."""
    here, there = socket.socketpair()
    with here, there: socket.send_fds(here, [b"x"], [fd]); return socket.recv_fds(there, 1, 1)[1][0]
def taken(fd):
    """pidfd_getfd(2)."""
    own = libc.syscall(434, os.getpid(), 0); copy = libc.syscall(438, own, fd, 0); os.close(own); return copy
def placed(fd): libc.syscall(33, fd, 101); return 101
def placed_flags(fd): libc.syscall(292, fd, 102, 0); return 102
WAYS = {"by SCM_RIGHTS": passed, "by pidfd_getfd": taken, "by SYS_dup": lambda fd: libc.syscall(32, fd), "by SYS_dup2": placed, "by SYS_dup3": placed_flags,
        "by SYS_fcntl": lambda fd: libc.syscall(72, fd, 0, 50), "by F_DUPFD_CLOEXEC": lambda fd: fcntl.fcntl(fd, 1030, 60),
        "dup": os.dup, "dup2": lambda fd: os.dup2(fd, 100), "F_DUPFD": lambda fd: socket.dup(fd)}
for way, duplicate in WAYS.items():
    s = socket.socket(); other = of(duplicate(s.fileno())); s.bind((OURS, 0)); other.listen(4)
    print(f"{way} bound: {other.getsockname()[0] == OURS} {other.getsockname() == s.getsockname()} {s.getsockopt(1, 30)}")
    s.close(); other.close()
    s = socket.socket(); other = of(duplicate(s.fileno())); s.connect((PEER, 8080)); other.sendall(b"abc")
    print(f"{way} connected: {s.recv(8)} {other.getpeername()[1]} {other.getsockname() == s.getsockname()}")
    s.close(); other.sendall(b"def"); print(f"{way} closed: {other.recv(8)}"); other.close()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); other = of(duplicate(s.fileno())); s.connect((PEER, 8080))
    other.send(b"abc"); print(f"{way} datagrams: {s.recv(8)} {other.getpeername()[1]}"); s.close(); other.close()
for what in ("bound", "connected"):
    with socket.socket() as s:
        other = os.dup(s.fileno()); os.set_inheritable(s.fileno(), True); os.set_inheritable(other, True)
        told = subprocess.run([sys.executable, *sys.argv[:3], what, str(s.fileno()), str(other)], close_fds=False, capture_output=True, text=True)
        print(f"by exec {what}: {told.stdout.strip() or told.stderr[-60:]!r}"); os.close(other)
