//! Records of stored responses and purges: any bytes are refused, or are those that the writer makes of what was read.
#![no_main]

use evenkeel_cache::record::{Dropped, FRAME, Frame, Kind, PurgeRecord, ResponseRecord};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    heads(bytes);
    let Some((frame, rest)) = bytes.split_first_chunk::<FRAME>() else { return };
    let Ok(read) = Frame::read(frame) else { return };
    assert_eq!(read.bytes(), *frame);
    let Some((head, body)) = rest.split_at_checked(read.head_len as usize) else { return };
    // The fuzzer finds no checksums: what is below them is read without.
    heads(head);
    let is_whole = read.check_head(head).is_ok() && read.check_body(body).is_ok();
    let Some(again) = Frame::of(read.kind, read.number, head, body) else { return };
    assert_eq!(is_whole, again == read);
    let (Some(head), Some(_)) = (head.first(), body.first()) else { return };
    if is_whole && read.kind == Kind::Response {
        let mut other = again.bytes();
        other[24] ^= head | 1;
        assert!(Frame::read(&other).is_ok_and(|other| other.check_head(&rest[..read.head_len as usize]).is_err()));
    }
});

fn heads(bytes: &[u8]) {
    if let Ok(read) = ResponseRecord::read(bytes) {
        let ResponseRecord { key, url_len, stored, stale_from, hits } = &read;
        assert_eq!(ResponseRecord::write(key, *url_len, stored, *stale_from, *hits), bytes);
    }
    if let Ok(read) = PurgeRecord::read(bytes) {
        assert_eq!(read.write(), bytes);
    }
    if let Ok(read) = Dropped::read(bytes) {
        assert_eq!(read.write(), bytes);
    }
}
