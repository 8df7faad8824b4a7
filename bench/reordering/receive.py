"""Receives from ADDR until the end; prints MB/s of what came after the first second, or of all with less."""
import socket, sys, time
client = socket.create_connection((sys.argv[1], 8080), timeout=60)
start = time.monotonic()
got, early, since = 0, 0, start
while data := client.recv(1 << 18):
    got += len(data)
    now = time.monotonic()
    if since == start and now - start >= 1: early, since = got, now
print(f"{(got - early) / (time.monotonic() - since) / 1e6:.1f}")
