// The JDK's server, with the decoded path as a path of files, and with parameters removed as containers of servlets do.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;

public class Server {
    public static void main(String[] args) throws Exception {
        String[] address = args[0].split(":");
        HttpServer server = HttpServer.create(new InetSocketAddress(address[0], Integer.parseInt(address[1])), 0);
        server.createContext("/", exchange -> {
            String body;
            try {
                String path = exchange.getRequestURI().getRawPath().replaceAll(";[^/]*", "");
                String decoded = java.net.URLDecoder.decode(path.replace("+", "%2B"), StandardCharsets.UTF_8);
                String name = Paths.get(decoded.replace('\\', '/')).normalize().toString();
                body = name.equals("/admin") || name.startsWith("/admin/") ? "protected" : "open";
            } catch (IllegalArgumentException error) {
                body = "refused";
            }
            exchange.sendResponseHeaders(200, body.length());
            exchange.getResponseBody().write(body.getBytes(StandardCharsets.UTF_8));
            exchange.close();
        });
        server.start();
    }
}
