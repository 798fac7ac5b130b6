//! Uploads and downloads over a path that loses and reorders datagrams.

use super::before;
use crate::support::endpoint::ok;
use crate::support::h3_client::{H3Client, request};
use crate::support::lossy::Lossy;
use crate::support::{Endpoint, noise};
use sha2::{Digest, Sha256};

const SIZE: usize = 1_000_000;

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn uploads_and_downloads_are_whole_at_any_loss() {
    let body = noise(SIZE);
    let down = body.clone();
    let endpoint = Endpoint::answering(move |request| match request.body.is_empty() {
        false => ok(&digest(&request.body)),
        true => [format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes(), &down].concat(),
    });
    let proxy = before(&[endpoint.addr]);
    for (seed, lost) in [(1, 10), (2, 50), (3, 200)] {
        let relay = Lossy::start(proxy.addr(), seed, lost, 100);
        let client = H3Client::connect(relay.addr).await;
        let at = format!("seed {seed}, {lost} of 1000 lost");
        let download = client.get("/").await;
        assert_eq!((download.status(), digest(&download.body)), (200, digest(&body)), "{at}");
        let mut upload = client.begin(&request("POST", "/")).await;
        for part in body.chunks(100_000) {
            assert!(upload.data(part).await, "{at}");
        }
        let _ = upload.send.finish();
        assert_eq!(upload.answer().await.body_text(), digest(&body), "{at}");
        let [lost, late] = relay.counts();
        assert!(lost > 0 && late > 10, "{at}: {lost} {late}");
    }
}
