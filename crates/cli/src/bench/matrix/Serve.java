// Files by HTTP, and the sum of what is put, on the JDK's own server.
// Arguments: our address, the folder.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.concurrent.Executors;

class Serve {
  public static void main(String[] args) throws IOException {
    // It would end all but 200 that are idle, and wait for more to send.
    System.setProperty("sun.net.httpserver.maxIdleConnections", "2000");
    System.setProperty("sun.net.httpserver.nodelay", "true");
    var server = HttpServer.create(new InetSocketAddress(args[0], 80), 1024);
    server.setExecutor(Executors.newFixedThreadPool(8));
    server.createContext("/", exchange -> answer(exchange, Path.of(args[1])));
    server.start();
  }

  static void answer(HttpExchange exchange, Path folder) throws IOException {
    try (exchange) {
      if (exchange.getRequestMethod().equals("GET")) {
        var file = folder.resolve(Path.of(exchange.getRequestURI().getPath()).getFileName());
        exchange.sendResponseHeaders(200, Files.size(file));
        Files.copy(file, exchange.getResponseBody());
        return;
      }
      var sum = MessageDigest.getInstance("SHA-256");
      var piece = new byte[65536];
      for (int len; (len = exchange.getRequestBody().read(piece)) >= 0; ) {
        sum.update(piece, 0, len);
      }
      var text = HexFormat.of().formatHex(sum.digest()).getBytes();
      exchange.sendResponseHeaders(200, text.length);
      exchange.getResponseBody().write(text);
    } catch (NoSuchAlgorithmException e) {
      throw new IOException(e);
    }
  }
}
