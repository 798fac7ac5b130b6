//! An endpoint that keeps the heads of its requests, and answers as it is told.

use crate::support::address;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

pub struct Backend {
    pub addr: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Backend {
    /// `answer`: by the head of a request, in lower case; `None` closes the connection.
    pub fn start(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Backend {
        let addr = address();
        let listener = TcpListener::bind(&addr).expect("nobody else uses it");
        let (heads, answer) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(answer));
        let backend = Backend { addr, heads: heads.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (heads, answer) = (heads.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    loop {
                        let mut head = String::new();
                        while !head.ends_with("\r\n\r\n") {
                            if !stream.read_line(&mut head).is_ok_and(|n| n > 0) {
                                return;
                            }
                        }
                        let head = head.to_lowercase();
                        heads.lock().expect("no panic while held").push(head.clone());
                        let Some(answer) = answer(&head) else { return };
                        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        backend
    }

    /// Starts one that always answers with this status and an empty body.
    pub fn always(status: u16) -> Backend {
        Backend::start(move |_| Some(response(status)))
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic while held").clone()
    }

    /// The fields of the request for this path.
    pub fn fields(&self, path: &str) -> Option<Vec<String>> {
        let head = self.heads().into_iter().find(|head| head.split(' ').nth(1) == Some(path))?;
        Some(head.lines().skip(1).map(str::to_owned).collect())
    }

    /// Value of a field of that request.
    pub fn field(&self, path: &str, name: &str) -> Option<String> {
        let start = format!("{name}: ");
        self.fields(path)?.iter().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
    }
}

pub fn response(status: u16) -> String {
    format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n")
}
