"""Peer on the kernel's TCP: each port ends its connections in another way."""
import ctypes, errno, socket, struct, sys, threading, time, traceback
ADDRS = sys.argv[1:]

def reset(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); c.close()

def behave(c, port):
    try:
        if port == 7001:            # sends, waits for a byte, resets
            c.sendall(b"answer"); c.recv(1); reset(c)
        elif port == 7002:          # sends, waits for a byte, closes
            c.sendall(b"answer"); c.recv(1); c.close()
        elif port == 7003:          # closes, then resets what comes later
            c.sendall(b"answer"); c.recv(1); c.shutdown(socket.SHUT_WR); c.recv(1); reset(c)
        elif port == 7004:          # silent, keeps it open
            keep.append(c)
        elif port == 7005:          # waits for a byte, resets, sends nothing
            c.recv(1); reset(c)
        elif port == 7006:          # takes nothing any more, and acknowledges nothing
            program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))  # BPF_RET 0
            c.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(program)))
            c.sendall(b"deaf"); keep.append(c)
        elif 7010 <= port < 7030:   # as 7006; a data segment is answered by an ICMP error (below)
            program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))
            c.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(program)))
            c.sendall(b"deaf"); keep.append(c)
        elif port == 7007:          # counts the segments with data
            while c.recv(65536): pass
            c.sendall(b"%d" % struct.unpack_from("=I", c.getsockopt(6, 11, 256), 152)); c.close()
        elif port == 7008:          # connects to where it is told, sends what it is told, says how that ends
            ip, to, data = c.recv(100).decode().split(",")
            s = socket.create_connection((ip, int(to))); s.sendall(data.encode()); c.sendall(b"connected")
            s.settimeout(5); result = b""
            try:
                while b := s.recv(64): result += b
                result += b"end"
            except OSError as e: result += errno.errorcode.get(e.errno, "timeout").encode()
            c.sendall(result); c.close()
        elif port == 7009:          # four bytes, and six for each that comes
            c.sendall(b"four")
            while c.recv(1): c.sendall(b"sixsix")
            c.close()
        elif port == 7033:          # as 7008, and resets it at once
            ip, to, data = c.recv(100).decode().split(",")
            s = socket.create_connection((ip, int(to))); s.sendall(data.encode()); time.sleep(.01); reset(s); c.sendall(b"reset"); c.recv(1); c.close()
        elif port == 7034:          # as 7008, with a small window; after a byte it reads to the end, and sends the length
            ip, to, _ = c.recv(100).decode().split(","); s = socket.socket(); s.setsockopt(1, 8, 4096); s.connect((ip, int(to))); c.sendall(b"connected"); c.recv(1)
            n = 0
            while b := s.recv(65536): n += len(b)
            c.sendall(str(n).encode()); c.close()
        elif port == 7030:          # four bytes, and a million
            c.sendall(b"four"); c.recv(64); c.sendall(bytes(999_996)); keep.append(c)
        elif port in (7031, 7032):  # four bytes, and six; then closes, or resets
            c.sendall(b"four"); c.recv(64); c.sendall(b"sixsix"); time.sleep(.01); c.close() if port == 7031 else reset(c)
        else:                       # echo
            while b := c.recv(65536): c.sendall(b)
            c.close()
    except OSError:
        pass

def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data)); total = (total >> 16) + (total & 0xffff)
    return 0xffff ^ (total + (total >> 16)) & 0xffff
def refuse():
    """Answers what comes for 10.8.3.C and fd00:8::C, and data for ports 7010+C, by "unreachable" of code C."""
    four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    seen.setsockopt(1, 33, 1 << 24)  # SO_RCVBUFFORCE: on a busy machine this thread is late
    while True:
        packet, (_, protocol, direction, *_) = seen.recvfrom(65536)
        if direction == socket.PACKET_OUTGOING or not packet: continue
        # A packet cut short, or one whose sender has gone meanwhile, ends no other program's errors.
        try: answer(packet, protocol, four, six)
        except (OSError, IndexError, struct.error): traceback.print_exc()
def answer(packet, protocol, four, six):
    if protocol == 0x800: at, kind, source, target = (packet[0] & 15) * 4, packet[9], packet[12:16], packet[16:20]
    elif protocol == 0x86dd: at, kind, source, target = 40, packet[6], packet[8:24], packet[24:40]
    else: return
    if kind not in (6, 17): return
    to = struct.unpack("!H", packet[at + 2:at + 4])[0]
    length = struct.unpack("!H", packet[2:4])[0] if protocol == 0x800 else 40 + struct.unpack("!H", packet[4:6])[0]
    if target[:3] == b"\x0a\x08\x03" or target[:4] == b"\xfd\0\0\x08" and target[4:15] == bytes(11): code = target[-1]
    elif kind == 6 and 7010 <= to < 7030 and length > at + (packet[at + 12] >> 4) * 4: code = to - 7010
    else: return
    quoted = packet[:min(length, at + 20) & ~1]
    if protocol == 0x800:
        message = struct.pack("!BBHI", 3, code, 0, 0) + quoted
        four.sendto(message[:2] + struct.pack("!H", checksum(message)) + message[4:], (socket.inet_ntoa(source), 0))
    else: six.sendto(struct.pack("!BBHI", 1, code, 0, 0) + quoted, (socket.inet_ntop(socket.AF_INET6, source), 0))

keep = []
def serve(port):
    l = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    while True:
        c, _ = l.accept()
        threading.Thread(target=behave, args=(c, port), daemon=True).start()
threading.Thread(target=refuse, daemon=True).start()
for port in (*range(7010, 7026), 7001, 7002, 7003, 7004, 7005, 7006, 7007, 7008, 7009, 7030, 7031, 7032, 7033, 7034, 8080):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
def echo(u):
    while True:
        b, a = u.recvfrom(65536); u.sendto(b, a)
for addr in ADDRS:
    u = socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_DGRAM)
    u.setsockopt(*((41, 78, 1) if ":" in addr else (0, 15, 1))); u.bind((addr, 8080))  # FREEBIND: a TAP device comes later
    threading.Thread(target=echo, args=(u,), daemon=True).start()
time.sleep(.3)
print("ready", flush=True)
threading.Event().wait()
