"""Binding ports as a user without privileges."""
import errno, os, socket, sys
OURS, PEER = sys.argv[1:3]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for kind in ("STREAM", "DGRAM"):
    for ip in ("ours", "0.0.0.0"):
        for port in (1, 80, 98, 99, 1023, 1024, 20_000):
            s = socket.socket(socket.AF_INET, getattr(socket, "SOCK_" + kind))
            try: s.bind((OURS if ip == "ours" else ip, port)); result = "ok"
            except OSError as e: result = errno.errorcode[e.errno]
            s.close()
            print(f"{kind} {ip} {port}: {result}")
