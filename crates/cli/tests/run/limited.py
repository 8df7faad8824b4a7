"""Serves connections with little memory to be had. argv[1]: our address; argv[2]: address space in MiB,
or `locked` (mlockall of all that is and will be), or `descriptors` (few are left)."""

import ctypes
import os
import resource
import socket
import sys

OURS, HOW = sys.argv[1:3]
LINES, AT_ONCE = 2000, 40
MCL_CURRENT, MCL_FUTURE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def kib(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what + ":"))


def mappings():
    """Memory shared with the stack: its size, its resident and its locked part in KiB, and its flags."""
    sizes, resident, locked, flags, shared = 0, 0, 0, [], False
    for line in open("/proc/self/smaps"):
        words = line.split()
        if not words[0].endswith(":"):
            shared = "greenwave-" in line
        elif shared and words[0] == "Size:":
            size = int(words[1])
            sizes += size
        elif shared and words[0] == "Rss:":
            resident += int(words[1])
        elif shared and words[0] == "VmFlags:":
            flags.append(words[1:])
            locked += size if "lo" in words else 0
    return sizes, resident, locked, flags


listener = socket.create_server((OURS, 7000), backlog=AT_ONCE)
limit = None
if HOW == "locked":
    assert libc.mlockall(MCL_CURRENT | MCL_FUTURE) == 0, os.strerror(ctypes.get_errno())
elif HOW == "descriptors":
    resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
    AT_ONCE = 4
else:
    limit = int(HOW) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = kib("VmLck")
for _ in range(2):
    connections = [listener.accept()[0] for _ in range(AT_ONCE)]
    for number in range(LINES):
        for connection in connections:
            connection.sendall(b"%07d\n" % number)
    if HOW not in ("locked", "descriptors"):
        # The rest is the program's.
        block = bytearray(limit // 8)
        del block
    sizes, resident, locked, flags = mappings()
    assert flags or HOW == "descriptors", "nothing is shared"
    assert all("dd" in of for of in flags), flags
    # A listener maps the marks of connections, which are there before mlockall; send buffers are not locked.
    assert locked <= 32, (locked, flags)
    assert sizes <= 20 << 10 and (limit is None or sizes << 10 <= limit // 8), sizes
    assert resident <= 4 << 10, resident
    for connection in connections:
        connection.close()
