//! CPU time and size of compressed bodies, beside zlib at the levels of NGINX.
//!
//! `cargo bench --bench compression`; with `flush`, each piece of a body is flushed, as for an endpoint that pauses; with
//! `whole`, bodies are compressed as those that are stored for many clients.

use evenkeel_compress::coding::Coding;
use evenkeel_compress::encoder::{Encoder, Op, Room, whole_at};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;

/// Bytes that one measurement compresses at least.
const BYTES: usize = 4 << 20;

/// Bytes of one measurement at levels that take up to 100 times as long as those of streams.
const SLOW_BYTES: usize = 1 << 20;

/// Measurements of which the fastest counts: others were disturbed.
const ROUNDS: usize = 5;

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Length of a body compressed by evenkeel, and the longest time of a step in nanoseconds.
fn ours(coding: Coding, level: u8, body: &[u8], piece: usize, flushes: bool) -> (usize, u64) {
    let mut encoder = Encoder::new(coding, level, Room::Usual);
    let (mut to, mut out, mut longest) = (vec![0; 32 << 10], 0, 0);
    let mut give = |encoder: &mut Encoder, mut from: &[u8], op| loop {
        let began = cpu_ns();
        let step = encoder.step(from, &mut to, op).expect("it compresses");
        longest = longest.max(cpu_ns() - began);
        (from, out) = (&from[step.taken..], out + step.written);
        if step.is_done {
            return;
        }
    };
    let block = encoder.block();
    let mut give = |from: &[u8], op| give(&mut encoder, from, op);
    for piece in body.chunks(piece) {
        for part in piece.chunks(block) {
            give(part, Op::Go);
            if flushes || part.len() == block {
                give(&[], Op::Flush);
            }
        }
    }
    give(&[], Op::End);
    (out, longest)
}

/// Length of a body compressed by zlib, with the window and memory that NGINX gives it.
fn zlib(level: c_int, body: &[u8], piece: usize, flushes: bool) -> usize {
    extern "C" fn alloc(_: *mut c_void, n: c_uint, size: c_uint) -> *mut c_void {
        // SAFETY: calloc takes any numbers.
        unsafe { libc::calloc(n as usize, size as usize) }
    }
    extern "C" fn free(_: *mut c_void, memory: *mut c_void) {
        // SAFETY: it is memory of `alloc`.
        unsafe { libc::free(memory) }
    }
    let mut stream = libz_sys::z_stream {
        next_in: std::ptr::null_mut(),
        avail_in: 0,
        total_in: 0,
        next_out: std::ptr::null_mut(),
        avail_out: 0,
        total_out: 0,
        msg: std::ptr::null_mut(),
        state: std::ptr::null_mut(),
        zalloc: alloc,
        zfree: free,
        opaque: std::ptr::null_mut(),
        data_type: 0,
        adler: 0,
        reserved: 0,
    };
    let (mut to, mut out, pieces) = (vec![0u8; 32 << 10], 0, body.chunks(piece).count());
    // SAFETY: the stream lives until deflateEnd, and each call gets buffers that live as long as it.
    unsafe {
        let size = size_of::<libz_sys::z_stream>() as c_int;
        assert_eq!(libz_sys::deflateInit2_(&mut stream, level, 8, 31, 8, 0, libz_sys::zlibVersion(), size), 0);
        for (at, piece) in body.chunks(piece).enumerate() {
            (stream.next_in, stream.avail_in) = (piece.as_ptr().cast_mut(), piece.len() as c_uint);
            let flush = match at + 1 == pieces {
                true => libz_sys::Z_FINISH,
                false if flushes => libz_sys::Z_SYNC_FLUSH,
                false => libz_sys::Z_NO_FLUSH,
            };
            loop {
                (stream.next_out, stream.avail_out) = (to.as_mut_ptr(), to.len() as c_uint);
                let end = libz_sys::deflate(&mut stream, flush);
                out += to.len() - stream.avail_out as usize;
                if end == libz_sys::Z_STREAM_END || flush != libz_sys::Z_FINISH && stream.avail_out > 0 {
                    break;
                }
            }
        }
        libz_sys::deflateEnd(&mut stream);
    }
    out
}

/// Prose of this repository: its guides and the reference of the configuration.
fn prose() -> Vec<u8> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let folders = ["guide", "reference/config"].map(|folder| std::fs::read_dir(docs.join(folder)).expect("a folder"));
    let mut files: Vec<_> = folders.into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    files.iter().filter_map(|file| std::fs::read(file).ok()).flatten().collect()
}

/// A list of users as an API sends it, always the same.
fn json(len: usize) -> Vec<u8> {
    const WORDS: [&str; 12] =
        ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima"];
    let (mut state, mut text, mut id) = (42u64, String::from("["), 1000);
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    while text.len() < len {
        id += 1 + below(7);
        let [a, b, c, d] = [(); 4].map(|()| WORDS[below(12) as usize]);
        text += &format!(
            "{{\"id\":{id},\"uuid\":\"{:016x}\",\"name\":\"{a} {b}\",\"email\":\"{a}.{b}{}@example.com\",\"active\":{},\
             \"balance\":{}.{:02},\"created_at\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\"tags\":[\"{c}\",\"{d}\"]}},",
            below(u64::MAX),
            below(100),
            below(2) == 0,
            below(10_000),
            below(100),
            below(12) + 1,
            below(28) + 1,
            below(24),
            below(60),
            below(60),
        );
    }
    text.truncate(len - 1);
    (text + "]").into_bytes()
}

fn main() {
    let flushes = std::env::args().any(|arg| arg == "flush");
    let is_whole = std::env::args().any(|arg| arg == "whole");
    let sizes: &[usize] = match (flushes, is_whole) {
        (true, _) => &[256 << 10],
        (_, true) => &[1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
        _ => &[1 << 10, 16 << 10, 256 << 10],
    };
    let pieces: &[usize] = if flushes { &[1448, 4 << 10, 16 << 10, 32 << 10] } else { &[32 << 10] };
    println!("corpus   size  piece  compressor   ms/MB  ratio  longest step (ms)");
    for (name, all) in [("prose", prose()), ("json", json(1 << 20))] {
        for (&size, &piece) in sizes.iter().flat_map(|size| pieces.iter().map(move |piece| (size, piece))) {
            let bodies: Vec<&[u8]> = all.chunks_exact(size).take(if is_whole { 16 } else { 64 }).collect();
            if bodies.is_empty() {
                continue;
            }
            let total: usize = bodies.iter().map(|body| body.len()).sum();
            let measure = |label: String, compress: &dyn Fn(&[u8]) -> (usize, u64)| {
                let bytes = if is_whole { SLOW_BYTES } else { BYTES };
                let (times, mut best, mut out, mut longest) = (bytes.div_ceil(total), u64::MAX, 0, u64::MAX);
                for _ in 0..if is_whole { 2 } else { ROUNDS } {
                    let began = cpu_ns();
                    let mut of_round = 0;
                    for _ in 0..times {
                        out = 0;
                        for body in &bodies {
                            let (len, step) = compress(body);
                            (out, of_round) = (out + len, of_round.max(step));
                        }
                    }
                    best = best.min((cpu_ns() - began) / times as u64);
                    longest = longest.min(of_round);
                }
                let (ms, ratio) = (best as f64 / total as f64, total as f64 / out as f64);
                println!(
                    "{name:6} {size:>6} {piece:>6}  {label:10} {ms:>7.2}  {ratio:>5.3}  {:.2}",
                    longest as f64 / 1e6
                );
            };
            if is_whole {
                let all: [(Coding, &[u8]); 3] = [
                    (Coding::Gzip, &[5, 7, 9]),
                    (Coding::Brotli, &[4, 5, 6, 7, 9, 11]),
                    (Coding::Zstd, &[3, 6, 9, 12, 15, 19]),
                ];
                for (coding, levels) in all {
                    for &level in levels {
                        measure(format!("{coding} {level}"), &|body| {
                            let began = cpu_ns();
                            let len = whole_at(coding, level, body).map_or(body.len(), |coded| coded.len());
                            (len, cpu_ns() - began)
                        });
                    }
                }
                continue;
            }
            for level in [1, 4, 6] {
                measure(format!("zlib {level}"), &|body| (zlib(level, body, piece, flushes), 0));
            }
            for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
                for level in coding.levels() {
                    measure(format!("{coding} {level}"), &|body| ours(coding, level, body, piece, flushes));
                }
            }
        }
    }
}
