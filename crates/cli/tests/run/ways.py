"""Writes numbered lines to its connections by every way there is. argv[1]: our address;
argv[2]: how many lines; argv[3]: the seed of which way each takes, and how long it is."""

import ctypes
import os
import random
import socket
import subprocess
import sys
import tempfile

OURS, COUNT, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PR_SET_SECCOMP, SECCOMP_MODE_STRICT, SYS_EXIT = 22, 1, 60
libc = ctypes.CDLL(None)


def send(to, line):
    to.sendall(line)


def pieces(to, line):
    half = len(line) // 2
    sent = os.writev(to.fileno(), [line[:half], b"", line[half:]])
    to.sendall(line[sent:])


def message(to, line):
    sent = to.sendmsg([line[:3], line[3:]])
    to.sendall(line[sent:])


def from_file(to, line):
    """The kernel moves the bytes itself."""
    with tempfile.TemporaryFile() as file:
        file.write(line)
        file.flush()
        at = 0
        while at < len(line):
            at += os.sendfile(to.fileno(), file.fileno(), at, len(line) - at)


def through_a_pipe(to, line):
    """Likewise."""
    line = line[:8] + b"\n"
    reads, writes = os.pipe()
    os.write(writes, line)
    assert os.splice(reads, to.fileno(), len(line)) == len(line)
    os.close(reads)
    os.close(writes)


def printed(to, line):
    """The C library writes past its own write."""
    assert libc.dprintf(to.fileno(), b"%s", line) == len(line)


def buffered(to, line):
    """As above, by a stream that is closed."""
    with os.fdopen(os.dup(to.fileno()), "wb") as stream:
        stream.write(line)


def copied(to, line):
    """A number that the library has never seen become a connection."""
    with to.dup() as copy:
        copy.sendall(line)


def forked(to, line):
    child = os.fork()
    if child == 0:
        to.sendall(line)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def confined(to, line):
    """Of a process that may only read and write: any other system call kills it."""
    if os.uname().machine != "x86_64":
        return forked(to, line)
    child = os.fork()
    if child == 0:
        fd, length, write, call = to.fileno(), len(line), libc.write, libc.syscall
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
        write(fd, line, length)
        call(SYS_EXIT, 0)
    assert os.waitpid(child, 0)[1] == 0


def executed(to, line):
    """Another program has it as what it prints to."""
    subprocess.run(["printf", "%s", line.decode()], stdout=to, check=True)


OFTEN = [send, pieces, message]
SELDOM = [from_file, through_a_pipe, printed, buffered, copied]
RARELY = [forked, confined, executed]


def serve(connection, choice):
    for number in range(COUNT):
        way = choice.choice(choice.choices([OFTEN, SELDOM, RARELY], [900, 95, 5])[0])
        length = choice.choice([0, 0, 0, 100, 4_000, choice.randrange(40_000)])
        way(connection, b"%07d " % number + b"x" * length + b"\n")


def closed_numbers_are_other_files(listener):
    """What takes a connection's number has nothing to do with it, however that was closed."""
    closes = [
        lambda fd: os.close(fd),
        lambda fd: libc.close(fd),
        lambda fd: libc.syscall(3, fd) if os.uname().machine == "x86_64" else os.close(fd),
        lambda fd: os.closerange(fd, fd + 1),
        lambda fd: libc.fclose(ctypes.c_void_p(fdopen(fd, b"w"))),
        lambda fd: None,
    ]
    fdopen = libc.fdopen
    fdopen.restype = ctypes.c_void_p
    for close in closes:
        connection, _ = listener.accept()
        connection.sendall(b"hello\n")
        fd = connection.detach()
        with tempfile.TemporaryFile() as file:
            kept = os.dup(file.fileno())
            close(fd)
            os.dup2(kept, fd)
            assert os.write(fd, b"to the file") == 11
            os.close(fd)
            assert os.pread(kept, 100, 0) == b"to the file"
            os.close(kept)


listener = socket.create_server((OURS, 7000))
closed_numbers_are_other_files(listener)
choice = random.Random(SEED)
connection, _ = listener.accept()
with connection:
    serve(connection, choice)
    # A half that is shut takes nothing more.
    connection.shutdown(socket.SHUT_WR)
    try:
        connection.send(b"more")
        raise AssertionError("a half that is shut took something")
    except BrokenPipeError:
        pass
    assert "greenwave-outboxes" in open("/proc/self/maps").read()
    # Until the client has it all.
    assert connection.recv(1) == b""
