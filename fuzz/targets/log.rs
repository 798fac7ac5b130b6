//! Access logs: any bytes are requests or faults, the same however they arrive and however often they are read; a format that is
//! found reads half of the lines.
#![no_main]

use evenkeel_logs::formats::ROWS;
use evenkeel_logs::read::{Report, Source};
use evenkeel_logs::{Format, Logs, Request, find};
use libfuzzer_sys::fuzz_target;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Returns a few bytes at a time.
struct Pieces(Vec<u8>, usize);

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(self.1).min(to.len());
        to[..length].copy_from_slice(&self.0[..length]);
        self.0.drain(..length);
        Ok(length)
    }
}

/// Report of a log that arrives in pieces, and its requests as text.
fn read(bytes: &[u8], piece: usize, format: &str) -> (Report, Vec<String>) {
    let source = Source::Reader(Box::new(Pieces(bytes.to_vec(), piece)), "any".to_string());
    let Ok(logs) = Logs::open(vec![source], Some(format), Some("bytes_out")) else { return Default::default() };
    let mut requests = Vec::new();
    let report = logs.read(|request, place| {
        requests.push(format!("{} {request:?}", place.line));
        ControlFlow::Continue(())
    });
    (report, requests)
}

fn check(request: &Request<'_>) {
    assert!(request.tries.kept().len() <= request.tries.count() as usize);
    assert!(request.tries_count() >= request.tries.count());
    assert!(request.status.is_none_or(|status| (100..1000).contains(&status)));
    assert!(request.chance.is_none_or(|chance| chance > 0.0 && chance <= 1.0));
}

fuzz_target!(|bytes: &[u8]| {
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
    for row in ROWS {
        let format = Format::named(row.name).expect("a row has its name");
        for line in &lines {
            let mut request = Request::default();
            if format.read(line, &mut request).is_ok() {
                check(&request);
            }
        }
    }
    let Ok(found) = find(&lines) else { return };
    assert!(found.read >= 0.5);
    let whole = read(bytes, usize::MAX, found.format.row.name);
    assert_eq!(whole, read(bytes, 7, found.format.row.name));
    assert_eq!(whole.0.coverage.requests + whole.0.bad_lines(), whole.0.lines);
    // The first line may also be a format.
    let Some((first, rest)) = lines.split_first() else { return };
    let Ok(format) = Format::named(&String::from_utf8_lossy(first)) else { return };
    for line in rest {
        let _ = format.read(line, &mut Request::default());
    }
});
