// Files by HTTP, and the sum of what is put, on node's own server.
// Arguments: our address, the folder.

const { createHash } = require("crypto");
const fs = require("fs");
const { createServer } = require("http");
const path = require("path");

const [address, folder] = process.argv.slice(2);

const server = createServer((request, response) => {
  if (request.method === "GET") {
    const file = path.join(folder, path.basename(request.url));
    response.setHeader("Content-Length", fs.statSync(file).size);
    fs.createReadStream(file).pipe(response);
    return;
  }
  const sum = createHash("sha256");
  request.on("data", (piece) => sum.update(piece));
  request.on("end", () => response.end(sum.digest("hex")));
});
server.keepAliveTimeout = 60_000;
server.listen(80, address, 1024);
