// Java's HttpClient as a client: DOOR URL CA FILE CASES; prints a line for each case. The door `upgrade` is that of HTTP/1.1,
// at which it offers HTTP/2.
import java.io.ByteArrayInputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.HexFormat;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Client {
    static HttpClient client;
    static String url;

    static HttpResponse<byte[]> ask(String method, String path, BodyPublisher body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path)).timeout(Duration.ofMinutes(5))
            .method(method, body).build();
        return client.send(request, BodyHandlers.ofByteArray());
    }

    public static void main(String[] args) throws Exception {
        url = args[1];
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (InputStream in = new FileInputStream(args[2])) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        boolean two = args[0].equals("h2") || args[0].equals("upgrade");
        client = HttpClient.newBuilder().sslContext(tls)
            .version(two ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1).build();
        byte[] content = Files.readAllBytes(Path.of(args[3]));
        for (String name : args[4].split(",")) {
            switch (name) {
                case "get" -> {
                    HttpResponse<byte[]> r = ask("GET", "/get", BodyPublishers.noBody());
                    String version = r.version() == HttpClient.Version.HTTP_2 ? "2" : "1.1";
                    String seen = r.headers().firstValue("x-seen").orElse("");
                    System.out.println("get " + r.statusCode() + " " + version + " " + new String(r.body()) + " " + seen);
                }
                case "post" -> {
                    HttpResponse<byte[]> r = ask("POST", "/hash", BodyPublishers.ofByteArray(content));
                    System.out.println("post " + r.statusCode() + " " + new String(r.body()));
                }
                case "small" -> {
                    // Without a length.
                    HttpResponse<byte[]> r = ask("POST", "/echo",
                        BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(content, 0, 100_000)));
                    byte[] sum = MessageDigest.getInstance("SHA-256").digest(r.body());
                    System.out.println("small " + r.statusCode() + " " + HexFormat.of().formatHex(sum));
                }
                case "kept" -> {
                    int good = 0;
                    for (int n = 0; n < 20; n++) {
                        HttpResponse<byte[]> r = ask("GET", "/get", BodyPublishers.noBody());
                        if (r.statusCode() == 200 && new String(r.body()).equals("hello")) good++;
                    }
                    System.out.println("kept " + good);
                }
                default -> throw new IllegalArgumentException(name);
            }
        }
        System.exit(0);
    }
}
