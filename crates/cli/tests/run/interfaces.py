"""Every address of IPv4 that getifaddrs(3) tells: interface, address, mask, broadcast."""

import ctypes
import socket


class Entry(ctypes.Structure):
    pass


Entry._fields_ = [
    ("next", ctypes.POINTER(Entry)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
    ("addr", ctypes.c_void_p), ("netmask", ctypes.c_void_p), ("broadcast", ctypes.c_void_p), ("data", ctypes.c_void_p),
]
IFF_BROADCAST = 2  # net/if.h


def text(addr):
    raw = ctypes.string_at(addr, 8)
    return socket.inet_ntoa(raw[4:8])


libc = ctypes.CDLL(None)
first = ctypes.POINTER(Entry)()
assert libc.getifaddrs(ctypes.byref(first)) == 0
at = first
while at:
    one = at.contents
    if one.addr and int.from_bytes(ctypes.string_at(one.addr, 2), "little") == socket.AF_INET:
        more = [one.broadcast] if one.flags & IFF_BROADCAST else []
        print(one.name.decode(), *map(text, [one.addr, one.netmask, *more]))
    at = one.next
libc.freeifaddrs(first)
