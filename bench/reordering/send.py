"""Sends BYTES to each client in turn and waits for its end, by congestion control CC where it can be chosen."""
import socket, sys
ADDR, BYTES, CC = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
listener = socket.create_server((ADDR, 8080))
try: listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CC)
except OSError: pass  # on our stack it is CUBIC
block = b"x" * (1 << 18)
while True:
    client, _ = listener.accept()
    left = BYTES
    try:
        while left > 0: left -= client.send(block[:left])
        client.shutdown(socket.SHUT_WR)
        client.recv(1)
    except OSError: pass
    client.close()
