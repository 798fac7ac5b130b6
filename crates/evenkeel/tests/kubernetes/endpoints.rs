//! Endpoints in this process, each at an address of its own, that end as pods do.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Time that each request takes, so that some are in flight at any moment.
const TAKES: Duration = Duration::from_millis(3);

/// Times of requests at an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub first: Option<Instant>,
    pub last: Option<Instant>,
}

/// An endpoint that serves. When it is dropped, it closes its listener and every connection, without waiting.
pub struct Endpoint {
    pub name: String,
    pub ip: Ipv4Addr,
    times: Arc<Mutex<Times>>,
    _tasks: JoinSet<()>,
}

impl Endpoint {
    pub async fn begin(name: String, ip: Ipv4Addr) -> Endpoint {
        let listener = TcpListener::bind(SocketAddr::from((ip, 8080))).await.expect("the address is free");
        let times = Arc::<Mutex<Times>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, name.clone(), times.clone()));
        Endpoint { name, ip, times, _tasks: tasks }
    }

    pub fn times(&self) -> Times {
        *self.times.lock().expect("no panic")
    }
}

async fn accept(listener: TcpListener, name: String, times: Arc<Mutex<Times>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("there are enough descriptors");
        let (name, times) = (name.clone(), times.clone());
        connections.spawn(async move {
            // A client may close whenever it wants.
            let _ = answer(stream, &name, &times).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(stream: TcpStream, name: &str, times: &Mutex<Times>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let body = format!("{{\"pod\":\"{name}\"}}");
    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut line = String::new();
    loop {
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
        }
        {
            let (mut times, now) = (times.lock().expect("no panic"), Instant::now());
            times.first.get_or_insert(now);
            times.last = Some(now);
        }
        tokio::time::sleep(TAKES).await;
        stream.write_all(text.as_bytes()).await?;
    }
}
