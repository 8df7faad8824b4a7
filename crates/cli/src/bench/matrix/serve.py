"""Files by HTTP/1.1 on asyncio's streams, and the sum of what is put.
argv: our address, the folder."""

import asyncio
import hashlib
import os
import sys


async def answer(reader, writer):
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, version = first.split()
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        if "expect" in fields:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        left, total = int(fields.get("content-length", 0)), hashlib.sha256()
        while left:
            piece = await reader.read(min(left, 65536))
            assert piece, "it ends in the middle"
            total.update(piece)
            left -= len(piece)
        body = total.hexdigest().encode()
        if method == "GET":
            with open(os.path.join(sys.argv[2], os.path.basename(path)), "rb") as file:
                body = file.read()
        ends = version == "HTTP/1.0" or fields.get("connection") == "close"
        kept = "close" if ends and fields.get("connection") != "keep-alive" else "keep-alive"
        writer.write(f"HTTP/1.1 200 OK\r\nConnection: {kept}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        await writer.drain()
        if kept == "close":
            return


async def serve(reader, writer):
    try:
        await answer(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # The peer has ended it.
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, sys.argv[1], 80)
    async with server:
        await server.serve_forever()


asyncio.run(main())
