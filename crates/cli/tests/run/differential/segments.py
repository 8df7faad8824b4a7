"""Segments that data leave in, by flag and option: small writes wait for more where a program says so."""
import os, socket, sys, time
OURS, PEER = sys.argv[1:3]
MORE, CORK = 0x8000, (6, 3)
page = os.open(__file__, os.O_RDONLY)
def pause(): time.sleep(.02)
def long(): time.sleep(.35)
def cork(s): s.setsockopt(*CORK, 1)
def uncork(s): s.setsockopt(*CORK, 0)
def a(s): s.send(b"a")
def more(s): s.send(b"m", MORE)
def much(s): s.send(b"M" * 3000, MORE)
def msg(s): s.sendmsg([b"x", b"y"], [], MORE)
def v(s): os.writev(s.fileno(), [b"1", b"2"])
def file(s): os.sendfile(s.fileno(), page, 0, 7)
def piped(s):
    r, w = os.pipe(); os.write(w, b"p"); os.splice(r, s.fileno(), 1) if hasattr(os, "splice") else s.send(os.read(r, 1)); os.close(r); os.close(w)
def wr(s): os.write(s.fileno(), b"w")
def end(s): s.shutdown(socket.SHUT_WR)
CASES = {
 "apart": [a, pause, a], "MSG_MORE": [more, pause, a], "MSG_MORE twice": [more, pause, more, pause, a], "at once": [more, a],
 "MSG_MORE and an end": [more, pause, end], "MSG_MORE and too long": [more, long, a], "again": [more, a, pause, more, a],
 "sendmsg": [msg, pause, a], "write": [more, pause, wr], "writev": [more, pause, v], "sendfile": [more, pause, file], "splice": [more, pause, piped],
 "much": [much, pause, a], "sendfile at once": [more, file, long, a],
 "corked": [cork, a, pause, a, pause, uncork], "corked and an end": [cork, a, pause, end], "corked and too long": [cork, a, long, a, uncork],
 "corked and a file": [cork, a, pause, file, uncork], "uncorked": [cork, uncork, a, pause, a], "corked MSG_MORE": [cork, more, pause, a, pause, uncork],
 "corked much": [cork, much, pause, a, uncork], "uncorked after MSG_MORE": [more, pause, uncork, pause, a],
}
def count(steps, before=False):
    s = socket.socket(); s.setsockopt(6, 1, 1)
    if before: cork(s)
    s.connect((PEER, 7007))
    for step in steps: step() if step in (pause, long) else step(s)
    try: s.shutdown(socket.SHUT_WR)
    except OSError: pass
    s.settimeout(10); n = int(s.recv(16)); s.close(); return n
# The fewest of two: the stack may be slow, or fast, just then.
def fewest(steps, before=False):
    n = count(steps, before); return n if n == 1 else min(n, count(steps, before))
for case, steps in CASES.items(): print(f"{case}: {fewest(steps)}")
print(f"corked before connect: {fewest([a, pause, a, uncork], True)}")
