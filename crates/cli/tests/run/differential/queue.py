"""Connections that wait in an accept queue, and one that was accepted, when their listener ends in each way."""
import errno, os, signal, socket, sys, time
OURS, PEER = sys.argv[1:3]
first = 21000 + 100 * int(OURS.rpartition(".")[2]); ports = iter(range(first, first + 100))
def listener(ip=OURS):
    l = socket.socket(); l.setsockopt(1, 2, 1); l.bind((ip, next(ports))); l.listen(8); return l
class Own:
    """A connection to `l` of this host's own, over loopback or to an own address, in the place of one of the peer's."""
    def __init__(self, l, data):
        self.s = socket.create_connection((OURS if l.getsockname()[0] == OURS else "127.0.0.1", l.getsockname()[1])); self.s.sendall(data.encode()); self.s.settimeout(10)
        time.sleep(.02)
    def settimeout(self, _): pass
    def recv(self, _):
        result = b""
        try:
            while b := self.s.recv(64): result += b
            return result + b"end"
        except OSError as e: return result + errno.errorcode.get(e.errno, "timeout").encode()
    def close(self): self.s.close()
def arrive(l, data):
    """A connection of the peer's to `l`; where it says how that has ended."""
    if at != "ours": return Own(l, data)
    k = socket.create_connection((PEER, 7008)); k.sendall(f"{OURS},{l.getsockname()[1]},{data}".encode())
    assert k.recv(9) == b"connected"; time.sleep(.02 if data else .005)
    return k
def said(k):
    k.settimeout(10); result = k.recv(64).decode(); k.close(); return result
ENDS = {
 "close": lambda l: l.close(), "shutdown RD": lambda l: l.shutdown(socket.SHUT_RD), "shutdown RDWR": lambda l: l.shutdown(socket.SHUT_RDWR),
}
for at, ip in (("ours", OURS), ("own", OURS), ("0.0.0.0", "0.0.0.0")):
    for data in ("", "x"):
        for end, f in ENDS.items():
            l = listener(ip); first, second = arrive(l, data), arrive(l, data)
            f(l); print(f"{at} {data or 'nothing'} waiting {end}: {said(first)}, {said(second)}"); l.close()
        for read in (False, True):
            l = listener(ip); first, second = arrive(l, data), arrive(l, data)
            a, _ = l.accept(); l.close(); result = said(second)
            if read and data: a.recv(8)
            a.close(); print(f"{at} {data or 'nothing'} accepted, {'read' if read else 'not read'}: {said(first)}, {result}")
        l = listener(ip); first = arrive(l, data); a, _ = l.accept(); a.sendall(b"y"); l.close()
        if data: a.recv(8)
        a.shutdown(socket.SHUT_WR); print(f"{at} {data or 'nothing'} accepted, shut: {said(first)}"); a.close()
        # The process ends with both.
        r, w = os.pipe(); child = os.fork()
        if child == 0:
            l = listener(ip); os.write(w, str(l.getsockname()[1]).encode()); a = l.accept(); time.sleep(60)
        os.close(w); port = int(os.read(r, 8)); os.close(r); next(ports)
        class Port:
            def getsockname(self): return (ip, port)
        first, second = arrive(Port(), data), arrive(Port(), data)
        os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
        print(f"{at} {data or 'nothing'} killed: {said(first)}, {said(second)}")
at = "ours"; l = listener(); first = arrive(l, ""); l.shutdown(socket.SHUT_RD); l.settimeout(.2)
try: l.accept(); result = "a connection"
except OSError as e: result = type(e).__name__ + str(e.errno)
print(f"accept after shutdown: {result}, {said(first)}")
