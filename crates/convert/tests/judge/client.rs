//! A client that sends one request on a connection, byte by byte as it is given, and reads the response.

use evenkeel_convert::Ask;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time after which a server has not answered.
const LATE: Duration = Duration::from_secs(5);

/// A response without what frames it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// In order, with names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: String,
}

/// Sends a request, and returns its response, or why there is none. Endpoints know the request by `id`.
pub fn answer(addr: SocketAddr, ask: &Ask, id: usize) -> Result<Answer, String> {
    let exchange = || {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(LATE))?;
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", ask.method, ask.target, ask.host);
        for (name, value) in &ask.fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("X-Ask: {id}\r\nConnection: close\r\n");
        if !ask.body.is_empty() {
            head += &format!("Content-Length: {}\r\n", ask.body.len());
        }
        stream.write_all(format!("{head}\r\n{}", ask.body).as_bytes())?;
        let (mut bytes, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        while !is_whole(&bytes, &ask.method) {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                // A reset behind the response does not matter.
                Err(_) if !bytes.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    };
    let bytes = exchange().map_err(|error: std::io::Error| error.to_string())?;
    read(&bytes).ok_or_else(|| format!("no response: {}", String::from_utf8_lossy(&bytes)))
}

/// True for a response that needs no end of its connection.
fn is_whole(bytes: &[u8], method: &str) -> bool {
    let Some(answer) = read(bytes) else { return false };
    let value = |name| answer.fields.iter().find(|(n, _)| n == name).map(|(_, value)| &**value);
    let length = value("content-length").and_then(|length| length.parse().ok());
    let is_last = bytes.ends_with(b"0\r\n\r\n") && value("transfer-encoding").is_some();
    method == "HEAD"
        || matches!(answer.status, 204 | 304)
        || length.is_some_and(|n: usize| answer.body.len() >= n)
        || is_last
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    if (100..200).contains(&status) && status != 101 {
        return read(body.as_bytes());
    }
    let field =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()));
    let fields: Vec<_> = lines.filter_map(field).collect();
    let chunked = fields.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { dechunked(body) } else { body.to_string() };
    Some(Answer { status, fields, body })
}

fn dechunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16).unwrap_or(0);
        let Some(chunk) = rest.get(..size).filter(|_| size > 0) else { break };
        body += chunk;
        text = rest.get(size + 2..).unwrap_or("");
    }
    body
}
