//! Interoperation with other implementations: curl, ab, wrk and Python's `http.client` as clients, NGINX as the
//! endpoint.

use crate::support;
use crate::support::nginx::{Directory, Nginx};
use crate::support::{Endpoint, Proxy, noise, tool, wait_until};
use evenkeel_peers::installed;
use std::io::Write;
use std::process::{Output, Stdio};

/// Size of the large upload in megabytes.
const UPLOAD_MB: usize = 100;

fn before(nginx: &Nginx) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\"]",
        nginx.addr
    ))
}

#[track_caller]
fn output(program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut command = tool(program);
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("a child of ours");
    let _ = writing.join();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}: {said}", output.status);
    output
}

#[track_caller]
fn curl(args: &[&str], input: &[u8]) -> Vec<u8> {
    output("curl", &[&["-sS", "--max-time", "60"], args].concat(), input).stdout
}

#[test]
fn curl_gets_files_of_nginx_byte_for_byte() {
    if !installed(&["nginx", "curl"]) {
        return;
    }
    let nginx = Nginx::start();
    let proxy = before(&nginx);
    for (name, size) in [("empty", 0), ("one", 1), ("page", 5_000), ("buffer", 32 * 1024), ("large", 10_000_000)] {
        let content = noise(size);
        nginx.put(name, &content);
        let url = format!("http://{}/{name}", proxy.addr());
        assert!(curl(&[&url], b"") == content, "{name}");
        assert!(curl(&["--http1.0", &url], b"") == content, "{name} over HTTP/1.0");
        let head = String::from_utf8(curl(&["-I", &url], b"")).expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {size}\r\n")), "{head}");
        // Several on one connection, and a range.
        assert!(curl(&[&url, &url, &url], b"") == content.repeat(3), "{name} three times");
        let part = curl(&["-r", "0-99", &url], b"");
        assert!(part == content[..size.min(100)] || size == 0, "{name} in part");
    }
    let missing = curl(&["-w", "%{http_code}", "-o", "/dev/null", &format!("http://{}/missing", proxy.addr())], b"");
    assert_eq!(missing, b"404");
}

#[test]
fn curl_uploads_to_nginx_in_chunks_and_with_a_length() {
    if !installed(&["nginx", "curl"]) {
        return;
    }
    let nginx = Nginx::start();
    let proxy = before(&nginx);
    let content = noise(5_000_000);
    // From standard input the length is unknown, so curl sends chunks.
    curl(&["-f", "-T", "-", &format!("http://{}/chunked", proxy.addr())], &content);
    assert!(std::fs::read(nginx.www().join("chunked")).expect("it was uploaded") == content);
    nginx.put("source", &content);
    let source = nginx.www().join("source");
    let source = source.to_str().expect("a name of ours");
    curl(&["-f", "-T", source, &format!("http://{}/length", proxy.addr())], b"");
    assert!(std::fs::read(nginx.www().join("length")).expect("it was uploaded") == content);
    curl(&["-f", "--http1.0", "-T", source, &format!("http://{}/old", proxy.addr())], b"");
    assert!(std::fs::read(nginx.www().join("old")).expect("it was uploaded") == content);
}

#[test]
fn curl_posts_a_large_file() {
    if !installed(&["nginx", "curl"]) {
        return;
    }
    let block = noise(1_000_000);
    let expected = block.clone();
    let endpoint = Endpoint::start(move |conn| {
        let head = conn.head();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", UPLOAD_MB * 1_000_000)), "{head}");
        if head.contains("\r\nExpect: 100-continue\r\n") {
            conn.send("HTTP/1.1 100 Continue\r\n\r\n");
        }
        for n in 0..UPLOAD_MB {
            assert!(conn.bytes(expected.len()) == expected, "megabyte {n}");
        }
        conn.send(support::endpoint::ok("all there"));
    });
    let proxy = Proxy::before(&[endpoint.addr]);
    let directory = Directory::new();
    let path = directory.0.join("large");
    let mut file = std::fs::File::create(&path).expect("a file of ours");
    (0..UPLOAD_MB).for_each(|_| file.write_all(&block).expect("room for it"));
    drop(file);
    let data = format!("@{}", path.display());
    let said = curl(&["-f", "--data-binary", &data, &format!("http://{}/", proxy.addr())], b"");
    assert_eq!(said, b"all there");
    wait_until("it is counted", || proxy.listener(|l| l.bytes_in.get()) > (UPLOAD_MB * 1_000_000) as u64);
}

#[test]
fn ab_sees_no_failure() {
    if !installed(&["nginx", "ab"]) {
        return;
    }
    let nginx = Nginx::start();
    nginx.put("page", &noise(1000));
    let proxy = before(&nginx);
    let url = format!("http://{}/page", proxy.addr());
    for keep_alive in [&["-k"][..], &[]] {
        let args = [&["-q", "-n", "2000", "-c", "20"], keep_alive, &[url.as_str()]].concat();
        let said = String::from_utf8(output("ab", &args, b"").stdout).expect("a report");
        let number = |label: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(label));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        assert_eq!((number("Complete requests:"), number("Failed requests:")), (2000, 0), "{said}");
        assert_eq!((number("Write errors:"), number("Non-2xx responses:")), (0, 0), "{said}");
        assert_eq!(number("HTML transferred:"), 2_000_000, "{said}");
        assert_eq!(number("Keep-Alive requests:"), if keep_alive.is_empty() { 0 } else { 2000 }, "{said}");
    }
    wait_until("all are counted", || proxy.ended(200) == 4000);
}

#[test]
fn wrk_sees_no_failure() {
    if !installed(&["nginx", "wrk"]) {
        return;
    }
    let nginx = Nginx::start();
    nginx.put("page", &noise(1000));
    let proxy = before(&nginx);
    let url = format!("http://{}/page", proxy.addr());
    let said =
        String::from_utf8(output("wrk", &["-t", "2", "-c", "16", "-d", "1s", &url], b"").stdout).expect("a report");
    assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{said}");
    assert!(said.contains(" requests in ") && proxy.ended(200) > 100, "{said}");
}

const PYTHON: &str = r#"
import http.client, sys
host, port = sys.argv[1].split(":")
content = open(sys.argv[2], "rb").read()
connection = http.client.HTTPConnection(host, int(port), timeout=30)
def ask(method, path, **rest):
    connection.request(method, path, **rest)
    response = connection.getresponse()
    return response.status, response.read(), response
socket = None
for n in range(50):
    status, body, _ = ask("GET", "/file")
    assert (status, body) == (200, content), (n, status, len(body))
    socket = socket or connection.sock
    assert connection.sock is socket, "the connection was not kept"
status, body, response = ask("HEAD", "/file")
assert (status, body, response.getheader("Content-Length")) == (200, b"", str(len(content)))
pieces = (content[i:i + 7000] for i in range(0, len(content), 7000))
status, _, _ = ask("PUT", "/chunked", body=pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
assert status in (201, 204), status
status, _, _ = ask("PUT", "/length", body=content)
assert status in (201, 204), status
for path in ("/chunked", "/length"):
    assert ask("GET", path)[1] == content, path
assert ask("GET", "/missing")[0] == 404
assert connection.sock is socket, "the connection was not kept"
print("fine")
"#;

#[test]
fn python_keeps_its_connection_and_gets_every_byte() {
    if !installed(&["nginx", "python3"]) {
        return;
    }
    let nginx = Nginx::start();
    nginx.put("file", &noise(200_000));
    let proxy = before(&nginx);
    let file = nginx.www().join("file");
    let args = ["-c", PYTHON, &proxy.addr().to_string(), file.to_str().expect("a name of ours")];
    assert_eq!(output("python3", &args, b"").stdout, b"fine\n");
    assert_eq!(proxy.listener(|l| l.accepted.get()), 1);
}
