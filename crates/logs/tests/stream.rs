//! Logs as streams: several files, compression, bad lines, progress.

use evenkeel_logs::read::Source;
use evenkeel_logs::{Fault, Logs};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Cursor, Write};
use std::ops::ControlFlow;

fn line(second: u32) -> String {
    let (minute, second) = (second / 60 % 60, second % 60);
    format!("10.0.1.2:3 [06/Feb/2009:12:{minute:02}:{second:02}.443] fnt bck/srv1 0/1/5007 212 -- 0/0/0/0/3 0/0\n")
}

fn source(text: impl Into<Vec<u8>>) -> Source {
    Source::Reader(Box::new(Cursor::new(text.into())), "memory".to_string())
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn zstd(text: &str) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(text.len())];
    let length = zstd_safe::compress(&mut out[..], text.as_bytes(), 1).expect("there is room");
    out.truncate(length);
    out
}

#[test]
fn files_are_read_one_after_the_other_whatever_their_compression() {
    let texts: Vec<String> = (0..4).map(|file| (0..1000).map(|n| line(file * 600 + n % 600)).collect()).collect();
    let sources = vec![
        source(""),
        source(texts[0].as_str()),
        source(gzip(&texts[1])),
        source(zstd(&texts[2])),
        source(texts[3].as_str()),
    ];
    let logs = Logs::open(sources, None, Some("bytes_out")).expect("they are logs");
    assert_eq!((logs.found().format.row.name, logs.names().len()), ("tcplog", 5));
    let mut files = [0; 5];
    let mut read = 0;
    let report = logs.read(|request, place| {
        files[place.file] += 1;
        assert!(place.line == files[place.file] && place.read >= read && request.demand.is_some());
        read = place.read;
        ControlFlow::Continue(())
    });
    assert_eq!((files, report.lines, report.bad_lines()), ([0, 1000, 1000, 1000, 1000], 4000, 0));
}

#[test]
fn bad_lines_are_counted_with_their_numbers() {
    let long = "x".repeat(200_000);
    let text = format!("{}\n{}Server bck/srv1 is DOWN\n{long}\n{}nonsense\n", line(0), line(1), line(2));
    let logs = Logs::open(vec![source(text)], Some("tcplog"), None).expect("it is a log");
    let mut lines = Vec::new();
    let report = logs.read(|_, place| {
        lines.push(place.line);
        ControlFlow::Continue(())
    });
    assert_eq!((lines, report.lines, report.bad_lines()), (vec![1, 3, 6], 6, 3));
    let bad: Vec<_> = report.bad.iter().map(|bad| (bad.line, bad.fault, bad.excerpt.as_str())).collect();
    let expected =
        [(4, Fault::Notice, "Server bck/srv1 is DOWN"), (5, Fault::TooLong, ""), (7, Fault::Lacks("time"), "nonsense")];
    assert_eq!(bad, expected);
}

#[test]
fn only_the_first_bad_lines_are_kept() {
    let text = format!("{}{}", line(0), "?\n".repeat(1000));
    let report = Logs::open(vec![source(text)], Some("tcplog"), None)
        .expect("it is a log")
        .read(|_, _| ControlFlow::Continue(()));
    assert_eq!((report.bad_lines(), report.bad.len()), (1000, 10));
}

#[test]
fn an_archive_that_was_cut_is_read_as_far_as_it_goes() {
    let text: String = (0..5000).map(line).collect();
    for bytes in [gzip(&text), zstd(&text)] {
        let length = bytes.len() / 2;
        let logs = Logs::open(vec![source(&bytes[..length]), source(line(1))], None, None).expect("it is a log");
        let mut by_file = [0; 2];
        let report = logs.read(|_, place| {
            by_file[place.file] += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((report.cut.len(), by_file[1]), (1, 1), "{:?}", report.cut);
    }
}

#[test]
fn reading_may_stop() {
    let text: String = (0..5000).map(line).collect();
    let mut count = 0;
    let report = Logs::open(vec![source(text)], None, None).expect("it is a log").read(|_, _| {
        count += 1;
        if count == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(report.lines, 10);
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let error = Logs::open(vec![Source::of("no/such/file.log")], None, None).err().map(|error| error.to_string());
    assert!(error.expect("it is not there").starts_with("no/such/file.log: "));
    let error = Logs::open(vec![source("hello\nworld\n")], None, None).err().map(|error| error.to_string());
    assert!(error.expect("it is not a log").contains("The first line is: hello"));
    assert!(Logs::open(vec![source("")], Some("unknown"), None).is_err());
}
