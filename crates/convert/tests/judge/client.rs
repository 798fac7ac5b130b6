//! A client that sends one request on a connection, byte by byte as it is given, and reads the response.

use evenkeel_convert::{Answer, Ask};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time after which a server has not answered.
const LATE: Duration = Duration::from_secs(5);

/// Sends a request, and returns its response, or why there is none. Endpoints know the request by `id`.
pub fn answer(addr: SocketAddr, ask: &Ask, id: usize) -> Result<Answer, String> {
    let exchange = || {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(LATE))?;
        stream.write_all(&ask.bytes(&format!("X-Ask: {id}\r\n")))?;
        let (mut bytes, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        while !Answer::is_whole(&bytes, &ask.method) {
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
    let is_late = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    // A busy machine may delay either side.
    let bytes = exchange().or_else(|error| if is_late(&error) { exchange() } else { Err(error) });
    let bytes = bytes.map_err(|error| error.to_string())?;
    Answer::read(&bytes).ok_or_else(|| format!("no response: {}", String::from_utf8_lossy(&bytes)))
}
