"""Peer on the kernel's TCP: each port ends its connections in another way."""
import ctypes, socket, struct, sys, threading
ADDR = sys.argv[1]

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
        else:                       # echo
            while b := c.recv(65536): c.sendall(b)
            c.close()
    except OSError:
        pass

keep = []
def serve(port):
    l = socket.create_server((ADDR, port), backlog=128)
    while True:
        c, _ = l.accept()
        threading.Thread(target=behave, args=(c, port), daemon=True).start()
for port in (7001, 7002, 7003, 7004, 7005, 7006, 8080):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((ADDR, 8080))
print("ready", flush=True)
while True:
    b, a = u.recvfrom(65536); u.sendto(b, a)
