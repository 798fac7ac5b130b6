//! TCP check with configured bytes: to send, to expect, and to send at the end.

use super::failure::Failure;
use super::stream::{BODY_MAX, Carries, send};
use tokio::io::AsyncReadExt;

/// Sends the first bytes, reads until the expected bytes have arrived, and sends the last.
pub(super) async fn ask(
    stream: &mut Box<dyn Carries>,
    first: Option<&[u8]>,
    expect: Option<&[u8]>,
    quit: Option<&[u8]>,
) -> Result<(), Failure> {
    if let Some(first) = first {
        send(stream, first).await?;
    }
    let heard = match expect {
        Some(expect) => hear(stream, expect).await,
        None => Ok(()),
    };
    if let Some(quit) = quit {
        // The result does not depend on it.
        let _ = send(stream, quit).await;
    }
    heard
}

/// Reads until `expect` has arrived; fails after [`BODY_MAX`] bytes.
async fn hear(stream: &mut Box<dyn Carries>, expect: &[u8]) -> Result<(), Failure> {
    let mut heard = Vec::new();
    while memchr::memmem::find(&heard, expect).is_none() {
        if heard.len() >= BODY_MAX {
            return Err(Failure::Answer);
        }
        if stream.read_buf(&mut heard).await.map_err(|_| Failure::Closed)? == 0 {
            return Err(if heard.is_empty() { Failure::Closed } else { Failure::Answer });
        }
    }
    Ok(())
}
