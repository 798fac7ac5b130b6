//! Decoders of content codings, by the libraries that clients use: whatever has come can be read.

use flate2::{Decompress, FlushDecompress, Status};
use std::io::Write;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Decoder of the body of one response, in any coding.
pub enum Decoder {
    Gzip(Decompress, Vec<u8>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
    Zstd(DCtx<'static>, Vec<u8>),
    Identity(Vec<u8>),
}

impl Decoder {
    /// Creates a decoder for a value of `Content-Encoding`.
    pub fn new(coding: Option<&str>) -> Decoder {
        match coding {
            Some("gzip") => Decoder::Gzip(Decompress::new_gzip(15), Vec::new()),
            Some("br") => Decoder::Brotli(Box::new(brotli::DecompressorWriter::new(Vec::new(), 64 * 1024))),
            Some("zstd") => Decoder::Zstd(DCtx::create(), Vec::new()),
            None => Decoder::Identity(Vec::new()),
            Some(other) => panic!("unknown coding {other}"),
        }
    }

    /// Adds bytes of the body, and returns all that can be read so far.
    pub fn push(&mut self, bytes: &[u8]) -> &[u8] {
        match self {
            Decoder::Identity(all) => {
                all.extend_from_slice(bytes);
                all
            }
            Decoder::Gzip(inner, all) => {
                let begin = inner.total_in();
                let mut room = vec![0; 64 * 1024];
                loop {
                    let (taken, written) = (inner.total_in(), inner.total_out());
                    let from = &bytes[(taken - begin) as usize..];
                    let status = inner.decompress(from, &mut room, FlushDecompress::None).expect("it is gzip");
                    let n = (inner.total_out() - written) as usize;
                    all.extend_from_slice(&room[..n]);
                    if status == Status::StreamEnd || n == 0 && inner.total_in() == taken {
                        return all;
                    }
                }
            }
            Decoder::Brotli(inner) => {
                inner.write_all(bytes).expect("it is Brotli");
                inner.flush().expect("it is Brotli");
                inner.get_ref()
            }
            Decoder::Zstd(inner, all) => {
                let mut from = InBuffer::around(bytes);
                let mut room = vec![0; 64 * 1024];
                loop {
                    let mut to = OutBuffer::around(&mut room[..]);
                    inner.decompress_stream(&mut to, &mut from).expect("it is Zstandard");
                    let n = to.pos();
                    all.extend_from_slice(&room[..n]);
                    if n < room.len() && from.pos() == bytes.len() {
                        return all;
                    }
                }
            }
        }
    }
}

/// Decodes a body that has come to its end.
pub fn decoded(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    Decoder::new(coding).push(body).to_vec()
}
