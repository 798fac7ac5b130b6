//! A service manager: the other end of `NOTIFY_SOCKET`.

use super::{DEADLINE, Folder};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

/// The manager's end, at a path that a process is given.
pub struct ServiceManager {
    socket: UnixDatagram,
    pub path: PathBuf,
}

impl ServiceManager {
    pub fn new(folder: &Folder) -> ServiceManager {
        let path = folder.0.join("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
        ServiceManager { socket, path }
    }

    /// The next message that is not a sign of life.
    #[track_caller]
    pub fn hears(&self) -> String {
        loop {
            let said = self.hears_any();
            if said != "WATCHDOG=1" {
                return said;
            }
        }
    }

    #[track_caller]
    pub fn hears_any(&self) -> String {
        let mut bytes = [0; 4096];
        let n = self.socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    /// The next message, if one comes in this time.
    pub fn hears_within(&self, limit: Duration) -> Option<String> {
        let mut bytes = [0; 4096];
        self.socket.set_read_timeout(Some(limit)).expect("sockets have timeouts");
        let came = self.socket.recv(&mut bytes);
        self.socket.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
        came.ok().map(|n| String::from_utf8_lossy(&bytes[..n]).into_owned())
    }
}
