//! Traces of connections in files.

use crate::support::h3_client::H3Client;
use crate::support::{Endpoint, Proxy, noise, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Folder that is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("it is there").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

/// Records of a file (RFC 7464).
fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("it is there");
    text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).expect(record)).collect()
}

#[tokio::test]
async fn the_first_connections_are_recorded_up_to_their_bounds() {
    const SIZE: u64 = 64 << 10;
    let body = noise(3_000_000);
    let endpoint = Endpoint::answering(move |_| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
    });
    let folder = Folder(std::env::temp_dir().join(format!("evenkeel-qlog-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let lines = format!(
        "tls = {{ self_signed = true }}\nhttp3 = {{ qlog = '{}', qlog_files = 2, qlog_size = '64KiB' }}",
        folder.0.display()
    );
    let proxy = Proxy::with(&[endpoint.addr], &lines, "", "");
    for _ in 0..3 {
        let client = H3Client::connect(proxy.addr()).await;
        assert_eq!(client.get("/").await.body.len(), 3_000_000);
        client.quic.close(0u8.into(), b"");
    }
    wait_until("connections have ended", || proxy.listener(|l| l.http3.active.get()) == 0);
    drop(proxy);
    let is_full =
        || files(&folder.0).iter().filter(|file| file.metadata().is_ok_and(|data| data.len() > SIZE / 2)).count() == 2;
    wait_until("two are written", is_full);
    let files = files(&folder.0);
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert_eq!(names, ["web-000000.sqlog", "web-000001.sqlog"]);
    for file in &files {
        assert!(file.metadata().expect("a file").len() <= SIZE);
        let records = records(file);
        let names = |name: &str| {
            records.iter().filter(|record| record["name"].as_str().is_some_and(|n| n.ends_with(name))).count()
        };
        assert!(names("packet_sent") > 10 && names("packet_received") > 10, "{records:?}");
    }
}
